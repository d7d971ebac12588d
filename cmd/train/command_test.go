package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halfstep/runs"
	"halfstep/runs/safetensors"
)

// TestExitCodes: what is wrong is told apart, and named.
func TestExitCodes(t *testing.T) {
	dir := workplace(t, 129, 32, small)
	t.Setenv("MNIST_DIR", "")
	for _, c := range []struct {
		name string
		code int
		args []string
		says []string
	}{
		{"nothing", 2, nil, []string{"--config"}},
		{"unknown flag", 2, []string{"--confog", "test.yaml"}, []string{"--confog"}},
		{"misspelt command", 2, []string{"devcies"}, []string{"devices"}},
		{"unknown key", 2, []string{"--config", "test.yaml", "epoch=1"}, []string{"epochs"}},
		{"no such file", 2, []string{"--config", "none.yaml"}, []string{"none.yaml"}},
		{"batch above the data", 2, []string{"--config", "test.yaml", "data.batch_size=130"}, []string{"data.batch_size", "129"}},
		{"batch norm of one sample", 2, []string{"--config", "test.yaml"}, []string{"data.batch_size", "batch norm", "drop_last"}},
		{"plateau without validation", 2, []string{"--config", "test.yaml", "optim.schedule={name: plateau}"}, []string{"data.validation"}},
		{"best without validation", 2, []string{"--config", "test.yaml", "checkpoint.best=true"}, []string{"data.validation"}},
		{"data missing", 3, []string{"--config", "test.yaml", "data.dir=nowhere"}, []string{"nowhere"}},
		{"no CUDA here", 4, []string{"--config", "test.yaml", "data.drop_last=true", "device=cuda:9"}, []string{"cuda"}},
		{"half precision on gorgonia", 2, []string{"--config", "test.yaml", "data.drop_last=true", "device=gorgonia"}, []string{"gorgonia", "float32"}},
		{"resume of nothing", 2, []string{"--resume", "none"}, []string{"none"}},
		{"eval without a run", 2, []string{"eval"}, []string{"eval RUN"}},
		{"more than devices takes", 2, []string{"devices", "x"}, []string{`"x"`, "train devices"}},
		{"two sets to fetch", 2, []string{"data", "fetch", "mnist", "kmnist"}, []string{"at most 1", "fetch [mnist | fashion_mnist | kmnist]"}},
		{"more than completion takes", 2, []string{"completion", "bash", "x"}, []string{`"x"`}},
		{"no classes to show", 2, []string{"predict", "latest", "x.png", "--top", "0"}, []string{"--top"}},
		{"a folder as file", 2, []string{"--config", "."}, []string{"is a folder"}},
		{"two devices", 2, []string{"--config", "test.yaml", "device=cpu", "--device", "cuda"}, []string{"--device stands for device=cuda", "device=cpu"}},
		{"graph and no graph", 2, []string{"--config", "test.yaml", "--no-graph", "cuda={graph: true}"}, []string{"--no-graph", "cuda.graph=true"}},
		{"allow what is no key", 2, []string{"--resume", "latest", "--allow", "max_steps,epoch"}, []string{`--allow: "epoch" is no key; did you mean epochs?`}},
		{"allow without resume", 2, []string{"--config", "test.yaml", "--allow", "epochs"}, []string{"--allow", "--resume"}},
		{"resume without a run folder", 2, []string{"--resume", "latest", "--fast-dev-run"}, []string{"exclude each other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			train(t, dir, c.args...).wants(t, c.code, c.says...)
			if list, _ := filepath.Glob(filepath.Join(dir, "runs", "*")); len(list) > 0 {
				t.Error("a run folder was made")
			}
		})
	}
	train(t, dir, "--config", "test.yaml", "data.drop_last=true", "epochs=1").wants(t, 0)
}

// TestCorruptData: exit code 3 naming the file and what was found.
func TestCorruptData(t *testing.T) {
	dir := workplace(t, 64, 32, small)
	if err := os.WriteFile(filepath.Join(dir, "train-labels-idx1-ubyte"), []byte("<html>403</html>"), 0o644); err != nil {
		t.Fatal(err)
	}
	train(t, dir, "--config", "test.yaml").wants(t, 3, "train-labels-idx1-ubyte")
}

// TestModes: --dry-run and --fast-dev-run leave no run folder; --json copies the log.
func TestModes(t *testing.T) {
	dir := workplace(t, 128, 80, small)
	train(t, dir, "--config", "test.yaml", "--dry-run").wants(t, 0, "conv1", "optim.lr: 0.003")
	train(t, dir, "--config", "test.yaml", "--fast-dev-run", "data.validation=40", "data.batch_size=16").wants(t, 0, "3 steps")
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Fatal("a run folder was made")
	}
	o := train(t, dir, "--config", "test.yaml", "--json").wants(t, 0)
	log, err := os.ReadFile(filepath.Join(theRun(t, dir), runs.LogFile))
	if err != nil || string(log) != o.stdout {
		t.Errorf("standard output is not the log: %v", err)
	}
}

// TestNoGraph: the flag is cuda.graph=false, for a run and its resumption, and every command that takes it says so.
func TestNoGraph(t *testing.T) {
	dir := workplace(t, 128, 80, small)
	train(t, dir, "--config", "test.yaml", "--dry-run").wants(t, 0, "cuda.graph: true  # default", "cuda.allow_tf32: false  # default")
	train(t, dir, "--config", "test.yaml", "--no-graph", "--dry-run").wants(t, 0, "cuda.graph: false  # override")
	train(t, dir, "--config", "test.yaml", "--no-graph", "cuda.graph=false", "--device", "cpu", "device=cpu", "--dry-run").wants(t, 0, "cuda.graph: false")
	train(t, dir, "--config", "test.yaml", "--no-graph", "cuda={allow_tf32: true}", "--dry-run").wants(t, 0, "cuda.graph: false", "cuda.allow_tf32: true")
	train(t, dir, "--config", "test.yaml", "--no-graph", "device=cpu", "max_steps=2", "cuda.allow_tf32=true").wants(t, 0)
	run := reread(t, theRun(t, dir))
	if run.Config["cuda.graph"] != "false" || run.Config["cuda.allow_tf32"] != "true" || run.Summary.DType != "float16" || run.Summary.TF32 {
		t.Errorf("config %v, summary %+v", run.Config, run.Summary)
	}
	train(t, dir, "--resume", theRun(t, dir), "max_steps=3", "cuda.graph=true", "--allow", "max_steps").wants(t, 2, "cuda.graph: false in the run, true now")
	train(t, dir, "--resume", theRun(t, dir), "max_steps=3", "--allow", "max_steps").wants(t, 0)
	for _, command := range [][]string{
		nil, {"compare"}, {"bench", "step"}, {"bench", "scaler"}, {"bench", "time-to-accuracy"}, {"bench", "mlp"}, {"bench", "batch"}, {"bench", "tutorial"},
	} {
		train(t, dir, append(command, "--help")...).wants(t, 0, "--no-graph", "cuda.graph=false")
	}
	train(t, dir, "bench", "batch", "--device", "cpu", "--batch-sizes", "64", "--steps", "1", "--no-graph").wants(t, 0, "On cpu")
}

// TestMemoryTF32: tf32 stores what fp32 does; a device that has not got it is refused.
func TestMemoryTF32(t *testing.T) {
	dir := workplace(t, 128, 80, small)
	var rows []struct {
		Precision string `json:"precision"`
		Peak      int64  `json:"planned_peak_bytes"`
	}
	o := train(t, dir, "memory", "--config", "test.yaml", "--precision", "fp32,tf32,fp16", "--json").wants(t, 0)
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || len(rows) != 3 {
		t.Fatalf("%v: %v", err, o)
	}
	if rows[1].Precision != "tf32" || rows[1].Peak != rows[0].Peak || rows[2].Peak >= rows[0].Peak {
		t.Errorf("%+v", rows)
	}
	train(t, dir, "memory", "--config", "test.yaml", "--precision", "tf32", "device=cpu").wants(t, 2, "tf32 needs an NVIDIA GPU")
}

// TestMemory: a plan says which device it is for where the configuration leaves that open.
func TestMemory(t *testing.T) {
	dir := workplace(t, 64, 32, small)
	const note = "planned for the CPU, because device is auto"
	train(t, dir, "memory", "--config", "test.yaml", "device=auto").wants(t, 0, note)
	if o := train(t, dir, "memory", "--config", "test.yaml", "device=cpu").wants(t, 0, "fp16"); strings.Contains(o.stdout, note) {
		t.Errorf("device: cpu is planned as auto: %s", o.stdout)
	}
	var rows []struct {
		Device string `json:"device"`
		Peak   int64  `json:"planned_peak_bytes"`
	}
	o := train(t, dir, "memory", "--config", "test.yaml", "device=auto", "--json").wants(t, 0)
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || len(rows) != 1 || rows[0].Device != "cpu" || rows[0].Peak == 0 {
		t.Errorf("%v: %s", err, o.stdout)
	}
}

// TestEval: the last checkpoint gives the test figures that the run ended with, the best one its best validation accuracy.
func TestEval(t *testing.T) {
	dir := workplace(t, 360, 100, small)
	train(t, dir, "--config", "test.yaml", "data.validation=40", "checkpoint.best=true").wants(t, 0)
	s := reread(t, theRun(t, dir)).Summary
	var e struct {
		Loss     float64  `json:"loss"`
		Accuracy *float64 `json:"accuracy"`
		Samples  int      `json:"samples"`
	}
	o := train(t, dir, "eval", "latest", "--json").wants(t, 0)
	if err := json.Unmarshal([]byte(o.stdout), &e); err != nil || e.Loss != *s.TestLoss || *e.Accuracy != *s.TestAccuracy || e.Samples != 100 {
		t.Errorf("%s: %v, want loss %v, accuracy %v", o.stdout, err, *s.TestLoss, *s.TestAccuracy)
	}
	o = train(t, dir, "eval", theRun(t, dir), "--split", "validation", "--best", "--json").wants(t, 0)
	if err := json.Unmarshal([]byte(o.stdout), &e); err != nil || *e.Accuracy != *s.BestValAccuracy || e.Samples != 40 {
		t.Errorf("%s: %v, want accuracy %v", o.stdout, err, *s.BestValAccuracy)
	}
	train(t, dir, "eval", "latest", "--split", "train").wants(t, 2, "--split")
	train(t, dir, "eval", "latest").wants(t, 0, "test loss", "accuracy")
}

// writePNG draws an image of MNIST, magnified, dark on a light coloured ground.
func writePNG(t *testing.T, path string, digit []byte) {
	t.Helper()
	const zoom, margin = 6, 40
	m := image.NewRGBA(image.Rect(0, 0, 28*zoom+2*margin, 28*zoom+margin))
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			v := uint8(0)
			if i, j := (x-margin)/zoom, (y-margin/2)/zoom; x >= margin && y >= margin/2 && i < 28 && j < 28 {
				v = digit[j*28+i]
			}
			m.SetRGBA(x, y, color.RGBA{245 - v/4*3, 240 - v, 220 - v/5*4, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPredict: digits that were drawn otherwise are recognised nearly as often as those of the test set. The data itself is
// not needed.
func TestPredict(t *testing.T) {
	set, err := mnist()
	if err != nil {
		t.Fatal(err)
	}
	dir := workplace(t, 3000, 100, strings.Replace(small, "name: idx, dir: .", "name: mnist, dir: .", 1))
	train(t, dir, "--config", "test.yaml", "epochs=4").wants(t, 0)
	want := *reread(t, theRun(t, dir)).Summary.TestAccuracy
	for _, name := range []string{"train", "t10k"} {
		for _, part := range []string{"-images-idx3-ubyte", "-labels-idx1-ubyte"} {
			if err := os.Remove(filepath.Join(dir, name+part)); err != nil {
				t.Fatal(err)
			}
		}
	}
	args := []string{"predict", "latest", "--json"}
	for i := range 100 {
		path := filepath.Join(dir, strings.Repeat("i", i+1)+".png")
		writePNG(t, path, set.Test.Images[i*784:][:784])
		args = append(args, path)
	}
	o := train(t, dir, args...).wants(t, 0)
	var list []struct {
		File string `json:"file"`
		Top  []struct {
			Class       int     `json:"class"`
			Probability float64 `json:"probability"`
		} `json:"top"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || len(list) != 100 {
		t.Fatal(err, o)
	}
	right := 0
	for i, p := range list {
		if p.Top[0].Class == int(set.Test.Labels[i]) {
			right++
		}
		if len(p.Top) != 3 || p.Top[0].Probability < p.Top[1].Probability || p.Top[1].Probability < p.Top[2].Probability || p.Top[0].Probability > 1 {
			t.Errorf("%+v", p)
		}
	}
	t.Logf("%d of 100 drawn digits right, %.0f of the originals", right, 100*want)
	// Two proportions near 0.9 of the same 100 digits; most differences are digits near a boundary.
	if float64(right) < 100*want-8 || want < 0.8 {
		t.Errorf("%d of 100 right, want about %.0f", right, 100*want)
	}
	train(t, dir, "predict", "latest", args[3]).wants(t, 0, args[3]+":", "%)")
	train(t, dir, "predict", "latest", filepath.Join(dir, "none.png")).wants(t, 3, "none.png")
	train(t, dir, "predict", "latest", "test.yaml").wants(t, 3, "PNG, JPEG or GIF")
}

// TestPredictRefuses: a model that was trained on random targets classifies nothing. It can be exported.
func TestPredictRefuses(t *testing.T) {
	dir := workplace(t, 64, 32, `
name: rows
epochs: 1
data: {name: random, batch_size: 8, random: {samples: 32, features: 8, targets: 8}}
model: {layers: [{linear: {units: 8}}]}
loss: {name: mse}
`)
	train(t, dir, "--config", "test.yaml").wants(t, 0)
	train(t, dir, "predict", "latest", "x.png").wants(t, 2, "does not classify images")
	train(t, dir, "export", "latest").wants(t, 0, "2 tensors")
	train(t, dir, "eval", "latest").wants(t, 2, "--split")
}

// TestExport: the file has the weights under PyTorch's names and shapes, in the type asked for.
func TestExport(t *testing.T) {
	dir := workplace(t, 128, 32, small)
	train(t, dir, "--config", "test.yaml").wants(t, 0)
	want := newest(t, theRun(t, dir))
	for dtype, size := range map[string]int{"float32": 4, "float16": 2, "bfloat16": 2} {
		out := filepath.Join(dir, dtype+".safetensors")
		train(t, dir, "export", "latest", "--out", out, "--dtype", dtype).wants(t, 0, "8 tensors in "+dtype, "read back")
		f, err := safetensors.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string][]int{
			"conv1.weight": {4, 1, 3, 3}, "conv1.bias": {4}, "bn1.weight": {4}, "bn1.bias": {4}, "bn1.running_mean": {4},
			"bn1.running_var": {4}, "linear1.weight": {10, 676}, "linear1.bias": {10},
		}
		for _, x := range f.Tensors {
			if len(x.Data) != size*len(want.Lookup(x.Name).Data)/4 || x.DType != safetensors.Of(dtype) {
				t.Errorf("%s is %s with %d bytes", x.Name, x.DType, len(x.Data))
			}
			if dtype == "float32" && !bytes.Equal(x.Data, want.Lookup(x.Name).Data) {
				t.Errorf("%s differs from the checkpoint", x.Name)
			}
			if shape := names[x.Name]; len(shape) != len(x.Shape) || shape[0] != x.Shape[0] {
				t.Errorf("%s has shape %v, want %v", x.Name, x.Shape, shape)
			}
			delete(names, x.Name)
		}
		if len(names) > 0 || f.Meta["format"] != "pt" || f.Meta["name"] != "small" {
			t.Errorf("missing %v, metadata %v", names, f.Meta)
		}
	}
	train(t, dir, "export", "latest").wants(t, 0, "model.safetensors")
	if _, err := safetensors.ReadFile(filepath.Join(theRun(t, dir), "model.safetensors")); err != nil {
		t.Error(err)
	}
	train(t, dir, "export", "latest", "--format", "onnx").wants(t, 0, "model.onnx: 8 tensors in float32")
	train(t, dir, "export", "latest", "--out", "half.onnx", "--dtype", "float16").wants(t, 0, "half.onnx: 8 tensors in float16", "differ by at most")
	for _, path := range []string{filepath.Join(theRun(t, dir), "model.onnx"), filepath.Join(dir, "half.onnx")} {
		if b, err := os.ReadFile(path); err != nil || !bytes.Contains(b, []byte("BatchNormalization")) { // package trainer runs such files
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	train(t, dir, "export", "latest", "--format", "tflite").wants(t, 2, "--format", "safetensors or onnx")
	train(t, dir, "export", "latest", "--dtype", "int8").wants(t, 2, "--dtype")
	train(t, dir, "export", "latest", "--out", filepath.Join(dir, "none", "x")).wants(t, 2, "--out", "there is no folder "+filepath.Join(dir, "none"))
	train(t, dir, "export", "latest", "--out", "x.pt").wants(t, 2, "--out", "torch.load")
	damage(t, want.Path)
	o := train(t, dir, "export", "latest", "--json").wants(t, 0)
	if !strings.Contains(o.stderr, filepath.Base(want.Path)) || !strings.Contains(o.stdout, `"warnings": [`) {
		t.Errorf("does not tell of the damaged checkpoint: %v", o)
	}
}

// TestReport: two configurations with two seeds each make two rows.
func TestReport(t *testing.T) {
	dir := workplace(t, 128, 64, small)
	for _, args := range [][]string{{"seed=1"}, {"seed=2"}, {"seed=1", "amp.enabled=false"}, {"seed=2", "amp.enabled=false"}} {
		train(t, dir, append([]string{"--config", "test.yaml", "epochs=1"}, args...)...).wants(t, 0)
	}
	o := train(t, dir, "report", "--csv").wants(t, 0)
	rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "amp.enabled" || rows[1][1] != "2" {
		t.Errorf("%v: %q", err, rows)
	}
	var list []map[string]any
	o = train(t, dir, "report", "runs", "--json").wants(t, 0)
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || len(list) != 2 || list[0]["test_accuracy_std"] == nil {
		t.Errorf("%v: %v", err, list)
	}
	if a, b := list[0]["test_accuracy_mean"].(float64), list[1]["test_accuracy_mean"].(float64); a < b || math.IsNaN(a) {
		t.Errorf("accuracies %v, %v: want the best first", a, b)
	}
	train(t, dir, "report", "--markdown").wants(t, 0, "| amp.enabled | runs |")
	train(t, dir, "report", "--html", "out.html", "--plots", "plots").wants(t, 0, "amp.enabled")
	for _, name := range []string{"out.html", "plots/loss.svg"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	train(t, dir, "report", "latest").wants(t, 0, "test_accuracy")
	train(t, dir, "report", "none").wants(t, 2, "none")
	train(t, dir, "report", "--csv", "--json").wants(t, 2)
}

// TestCompletion: the shells' scripts, and what they ask the command for.
func TestCompletion(t *testing.T) {
	dir := workplace(t, 64, 32, small)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		train(t, dir, "completion", shell).wants(t, 0, "train")
	}
	train(t, dir, "__complete", "").wants(t, 0, "summary", "report", "eval", "predict", "export")
	train(t, dir, "__complete", "--config", "").wants(t, 0, "cnn_amp", "posts/tensorcore")
	train(t, dir, "--config", "test.yaml", "epochs=1").wants(t, 0)
	run, err := filepath.Rel(dir, theRun(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	train(t, dir, "__complete", "eval", "").wants(t, 0, run)
	train(t, dir, "__complete", "--resume", "").wants(t, 0, run)
}
