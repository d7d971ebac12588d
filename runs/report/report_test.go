package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halfstep/runs"
)

// record is a run in memory: 100 steps, 3 epochs, one skipped step, a loss that is NaN once.
func record(id string) *runs.Record {
	r := &runs.Record{ID: id, Config: map[string]string{"optim.lr": "0.1"}, Summary: &runs.Summary{
		Config: "cnn_amp", Device: "cpu", DType: "float16", TestAccuracy: new(0.9912), TestLoss: new(0.03), ImagesPerS: 20500, Seconds: 12.3,
		MemPeakBytes: 31_000_000, FinalLossScale: 65536, SkippedSteps: 1, ExitReason: "completed",
	}}
	r.Lines = append(r.Lines, runs.Line{Event: runs.Memory{
		MemPlannedBytes: 30_000_000, ParametersBytes: 4_800_000, HalfCopiesBytes: 2_400_000, GradientsBytes: 4_800_000,
		OptimizerStateBytes: 9_600_000, ActivationsBytes: 6_000_000, WorkspaceBytes: 400_000, ResidentDataBytes: 2_000_000,
		MemPeakBytes: new(int64(31_000_000)),
	}})
	for step := 1; step <= 100; step++ {
		loss, scale := 2.3*math.Exp(-float64(step)/25), 65536.0
		if step == 40 {
			loss = math.NaN()
		}
		if step == 50 {
			r.Lines = append(r.Lines,
				runs.Line{Event: runs.SkippedStep{Step: step, LossScaleBefore: 65536, LossScale: 32768, FirstBadTensor: "conv2/<weight>"}},
				runs.Line{Event: runs.ScaleChange{Step: step, LossScaleBefore: 65536, LossScale: 32768}})
		}
		if step >= 50 && step < 80 {
			scale = 32768
		}
		r.Lines = append(r.Lines, runs.Line{Event: runs.Step{Step: step, TrainLoss: loss, LossScale: scale}})
	}
	for i, accuracy := range []float64{0.95, 0.98, 0.9912} {
		r.Epochs = append(r.Epochs, runs.Epoch{
			Epoch: i + 1, Step: 33 * (i + 1), TestAccuracy: &accuracy, TestLoss: new(0.2 / float64(i+1)),
			TrainAccuracy: new(accuracy - 0.01), ImagesPerS: 20000 + 100*float64(i),
		})
	}
	r.Predictions = &runs.Predictions{
		Split: "test", Samples: 9, Confusion: [][]int{{4, 1}, {0, 4}}, Shape: []int{1, 2, 1},
		Worst: []runs.Sample{{Index: 7, Label: 0, Predicted: 1, Probability: new(0.9), Loss: new(2.3), Pixels: []byte{0, 255}}},
	}
	return r
}

func render(t *testing.T, records ...*runs.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, records); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var svgElement = regexp.MustCompile(`(?s)<svg .*?</svg>`)

// The page is whole, loads nothing, adapts to light, dark and narrow, and every drawing is well-formed XML with finite
// coordinates.
func TestHTML(t *testing.T) {
	second := record("20261130T095133Z-other-2")
	for name, page := range map[string]string{
		"one run":  render(t, record("20261130T095132Z-cnn_amp-1")),
		"two runs": render(t, record("20261130T095132Z-cnn_amp-1"), second),
	} {
		drawings := svgElement.FindAllString(page, -1)
		want := 6 // loss, accuracy, scale, throughput, memory, confusion
		if name == "two runs" {
			want = 7
		}
		if len(drawings) != want {
			t.Errorf("%s: %d drawings, want %d", name, len(drawings), want)
		}
		for _, d := range drawings {
			for dec := xml.NewDecoder(strings.NewReader(d)); ; {
				if _, err := dec.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Errorf("%s: %v in %s", name, err, d)
					break
				}
			}
			if coordinates := regexp.MustCompile(`(x|y|x1|x2|y1|y2|cx|cy|width|points|d)="[^"]*(NaN|Inf)`).FindString(d); coordinates != "" {
				t.Errorf("%s: %s", name, coordinates)
			}
		}
		inline := strings.ReplaceAll(page, `src="data:image/png;base64,`, `"`)
		if m := regexp.MustCompile(`(?i)\b(src|href|@import)\b|https?:|url\(`).FindString(inline); m != "" {
			t.Errorf("%s: the page refers to something else: %s", name, m)
		}
		for _, want := range []string{"prefers-color-scheme: dark", "width=device-width", "step 50 skipped: conv2/&lt;weight&gt;", "99.12"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
}

// Names come from folders and configurations, and may be anything.
func TestHTMLEscapes(t *testing.T) {
	r := record(`<script>alert("x")</script>`)
	r.Config[`<u>`] = `"><em>`
	page := render(t, r, record("2")) + render(t, r)
	if strings.Contains(page, "<script>") || strings.Contains(page, "<u>") || strings.Contains(page, "<em>") {
		t.Error("a name is not escaped")
	}
}

func TestHTMLOfLittle(t *testing.T) {
	if err := HTML(io.Discard, nil); err == nil {
		t.Error("a page of no runs")
	}
	page := render(t, &runs.Record{ID: "new"})
	if strings.Contains(page, "<svg") || !strings.Contains(page, "not ended") {
		t.Error("a run that has just begun has drawings, or is not said to go on")
	}
	many := make([]*runs.Record, 10)
	for i := range many {
		many[i] = record(fmt.Sprint(i))
	}
	if page := render(t, many...); !strings.Contains(page, "2 more are in the table") {
		t.Error("the page does not tell of the runs it does not draw")
	}
}

// A straight line from corner to corner of the plot, and one that is cut where the value is not finite.
func TestDrawChart(t *testing.T) {
	c := &chart{title: "t", x: "x", unit: short, series: []series{{name: "s", points: []point{{0, 0}, {5, math.NaN()}, {10, 100}, {20, 200}}}}}
	got := string(drawChart(c))
	left, right, bottom, top := float64(leftMargin), float64(figureWidth-rightMargin), float64(figureHeight-bottomMargin), float64(topMargin)
	want := fmt.Sprintf(`<polyline class="line c0" points="%.1f,%.1f "/>`, left, bottom)
	want2 := fmt.Sprintf(`<polyline class="line c0" points="%.1f,%.1f %.1f,%.1f "/>`, (left+right)/2, (top+bottom)/2, right, top)
	for _, w := range []string{want, want2, "s: NaN at 5"} {
		if !strings.Contains(got, w) {
			t.Errorf("no %s in\n%s", w, got)
		}
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		values []float64
		base   float64
		want   []float64
	}{
		{[]float64{0, 200}, 0, []float64{0, 50, 100, 150, 200}},
		{[]float64{0.95, math.NaN(), 0.9912}, 0, []float64{0.95, 0.96, 0.97, 0.98, 0.99, 1}},
		{[]float64{1, 5}, 10, []float64{1, 2, 3, 4, 5}}, // less than a factor of ten: linear
		{[]float64{0.02, 2.3}, 10, []float64{0.02, 0.05, 0.1, 0.2, 0.5, 1, 2}},
		{[]float64{1e-6, 1}, 10, []float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1}},
		{[]float64{-1, 1000}, 10, []float64{-200, 0, 200, 400, 600, 800, 1000}}, // no logarithm
		{[]float64{32768, 65536}, 2, []float64{32768, 65536}},
		{[]float64{1, 1 << 24}, 2, []float64{1, 1 << 4, 1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24}},
		{[]float64{4, 4}, 2, []float64{2, 4, 8}},
		{nil, 0, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
	} {
		a := newAxis(c.values, 0, 1, c.base)
		equal := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(1e-9, math.Abs(y)) })
		if d := cmp.Diff(c.want, a.ticks, equal); d != "" {
			t.Errorf("%v: %s", c.values, d)
		}
		for _, v := range c.values {
			if at := a.at(v); finite(v) && (at < -1e-9 || at > 1+1e-9) {
				t.Errorf("%v: %v is drawn at %v, outside", c.values, v, at)
			}
		}
	}
	if a := newAxis([]float64{5, 5}, 0, 1, 0); a.at(5) < 0.2 || a.at(5) > 0.8 {
		t.Errorf("one value is drawn at %v", a.at(5))
	}
}

// A single spike survives, and so do values that are not finite.
func TestThin(t *testing.T) {
	p := make([]point, 100_000)
	for i := range p {
		p[i] = point{float64(i), 1}
	}
	p[12_345].y, p[70_001].y, p[99_999].y = 50, math.NaN(), -7
	got := thin(p)
	spike, nan, dip := false, false, false
	for i, q := range got {
		spike, nan, dip = spike || q == p[12_345], nan || q.x == 70_001, dip || q == p[99_999]
		if i > 0 && q.x <= got[i-1].x {
			t.Fatalf("out of order at %v", q)
		}
	}
	if len(got) > maxPoints || !spike || !nan || !dip {
		t.Errorf("%d points, spike %v, NaN %v, dip %v", len(got), spike, nan, dip)
	}
}

func TestPlot(t *testing.T) {
	for _, name := range Plots() {
		var b bytes.Buffer
		if err := Plot(&b, []*runs.Record{record("a"), record("b")}, name, "png"); err != nil {
			t.Fatal(name, err)
		}
		if m, err := png.Decode(&b); err != nil || m.Bounds().Dx() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var b bytes.Buffer
	if err := Plot(&b, []*runs.Record{record("a")}, "loss", "svg"); err != nil || !strings.Contains(b.String(), "<svg") {
		t.Errorf("svg: %v", err)
	}
	constant := &runs.Record{Lines: []runs.Line{{Event: runs.Step{Step: 1, LossScale: 0.5}}}}
	if err := Plot(io.Discard, []*runs.Record{constant}, "loss_scale", "png"); err != nil {
		t.Errorf("constant scale: %v", err)
	}
	for _, c := range []struct{ name, format, want string }{{"x", "png", "accuracy"}, {"loss", "bmp", "want png"}, {"loss", "png", "no such values"}} {
		if err := Plot(io.Discard, []*runs.Record{{}}, c.name, c.format); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.name, c.format, err)
		}
	}
}

// Where the environment names a folder, pages to look at are left there.
func TestLook(t *testing.T) {
	dir := os.Getenv("REPORT_LOOK")
	if dir == "" {
		t.Skip("runs where REPORT_LOOK names a folder")
	}
	for name, page := range map[string]string{
		"one.html": render(t, record("20261130T095132Z-cnn_amp-1f0c77a2")),
		"two.html": render(t, record("20261130T095132Z-cnn_amp-1f0c77a2"), record("20261130T095132Z-cnn-33333333")),
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(dir + "/loss.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Plot(f, []*runs.Record{record("a"), record("b")}, "loss", "png"); err != nil {
		t.Fatal(err)
	}
}

// Axes end at any numbers, also where float64 has no room for the ticks between them.
func TestAxisExtremes(t *testing.T) {
	values := []float64{0, 1, -1, 1e-320, -1e-320, 1e17, 1e17 + 16, -1e308, 1e308, math.MaxFloat64, math.SmallestNonzeroFloat64, 1 << 53, 1<<53 + 2}
	for _, base := range []float64{0, 2, 10} {
		for _, lo := range values {
			for _, hi := range values {
				a := newAxis([]float64{lo, hi}, 0, 1, base)
				if len(a.ticks) > 100 {
					t.Errorf("%g to %g, base %g: %d ticks", lo, hi, base, len(a.ticks))
				}
				if at := a.at(lo); !finite(at) {
					t.Errorf("%g to %g, base %g: %g is drawn at %g", lo, hi, base, lo, at)
				}
			}
		}
	}
}
