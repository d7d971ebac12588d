package report

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"html"
	"image/png"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halfstep/runs"
)

// The picture on the page has the sample's pixels, grey or in colours.
func TestPicture(t *testing.T) {
	for _, c := range []struct {
		pixels []byte
		shape  []int
		want   [][3]uint32
	}{
		{[]byte{0, 128, 255, 7}, []int{2, 2, 1}, [][3]uint32{{0, 0, 0}, {128, 128, 128}, {255, 255, 255}, {7, 7, 7}}},
		{[]byte{1, 2, 3, 4, 5, 6}, []int{1, 2, 3}, [][3]uint32{{1, 2, 3}, {4, 5, 6}}},
	} {
		url, err := picture(c.pixels, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(url), "data:image/png;base64,"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var got [][3]uint32
		for y := range m.Bounds().Dy() {
			for x := range m.Bounds().Dx() {
				r, g, b, _ := m.At(x, y).RGBA()
				got = append(got, [3]uint32{r >> 8, g >> 8, b >> 8})
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Error(d)
		}
	}
}

// Every count is on the page, with its label and prediction in this order.
func TestPagePredictions(t *testing.T) {
	page := html.UnescapeString(render(t, record("a")))
	for _, want := range []string{"0 taken for 1: 1", "1 taken for 0: 0", "1 taken for 1: 4", "0 → 1, 90%", "test image 7: loss 2.30", "The 1 of 9 test images"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	r := record("a")
	r.Predictions.Worst[0].Probability, r.Predictions.Worst[0].Loss = nil, nil
	if page := html.UnescapeString(render(t, r)); !strings.Contains(page, "0 → not finite") {
		t.Error("outputs that are not finite are not told")
	}
	r.Predictions = nil
	if page := render(t, r); strings.Contains(page, "Confusion") {
		t.Error("a run without predictions has a confusion matrix")
	}
}

// No matrix is too large, or too empty, to be drawn.
func TestDrawConfusion(t *testing.T) {
	for _, n := range []int{0, 1, 10, 47} {
		m := make([][]int, n)
		for i := range m {
			m[i] = make([]int, n)
		}
		d := string(drawConfusion(m))
		if strings.Contains(d, "NaN") || strings.Contains(d, "Inf") || strings.Count(d, "<rect") != n*n {
			t.Errorf("%d classes: %s", n, d)
		}
		for dec := xml.NewDecoder(strings.NewReader(d)); ; {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Bars end where the planned bytes end, and lie within the drawing, however much data is resident.
func TestMemoryBars(t *testing.T) {
	r := record("a")
	m := r.Lines[0].Event.(runs.Memory)
	m.MemPlannedBytes, m.MemPeakBytes, m.ResidentDataBytes = 28_000_000, new(int64(28_000_000)), 1_000_000_000
	r.Lines[0].Event = m
	d := string(drawMemory([]*runs.Record{r}))
	end := 0.0
	for _, bar := range regexp.MustCompile(`<rect [^>]*x="([0-9.]+)"[^>]* width="([0-9.]+)"`).FindAllStringSubmatch(d, -1) {
		x, _ := strconv.ParseFloat(bar[1], 64)
		width, _ := strconv.ParseFloat(bar[2], 64)
		end = max(end, x+width)
	}
	peak := regexp.MustCompile(`<line class="peak" x1="([0-9.]+)"`).FindStringSubmatch(d)
	if peak == nil {
		t.Fatal("no line at the measured peak")
	}
	if at, _ := strconv.ParseFloat(peak[1], 64); at < end-0.2 || at > end+0.2 || end > figureWidth { // two roundings to 0.1
		t.Errorf("the bars end at %v, the peak, which is the same, is at %v, the drawing at %d", end, at, figureWidth)
	}
}

func TestLabels(t *testing.T) {
	run := func(name, dtype string, batch int, lr string, seed uint64) *runs.Record {
		return &runs.Record{
			ID:      "20261130T095132Z-" + name + "-" + strconv.FormatUint(seed, 10),
			Config:  map[string]string{"name": name, "amp.enabled": strconv.FormatBool(dtype != "float32"), "data.batch_size": strconv.Itoa(batch), "optim.lr": lr},
			Summary: &runs.Summary{Config: name, DType: dtype, BatchSize: batch, Seed: seed},
		}
	}
	a, b, c := run("cnn", "float32", 512, "1", 1), run("cnn", "float16", 512, "1", 1), run("cnn", "float16", 1024, "1", 1)
	m, n := run("mlp", "float32", 128, "0.1", 1), run("mlp", "float32", 128, "0.2", 2)
	unended := &runs.Record{ID: "20261130T095132Z-x-9"}
	for _, c := range []struct {
		records []*runs.Record
		want    []string
	}{
		{[]*runs.Record{a, b, c}, []string{"cnn float32, batch 512", "cnn float16, batch 512", "cnn float16, batch 1024"}},
		{[]*runs.Record{a, m}, []string{"cnn", "mlp"}},
		{[]*runs.Record{b, m, n}, []string{"cnn float16, seed 1", "mlp float32, lr 0.1, seed 1", "mlp float32, lr 0.2, seed 2"}},
		{[]*runs.Record{a, a}, []string{"cnn-1", "cnn-1"}},
		{[]*runs.Record{a, unended}, []string{"cnn-1", "x-9"}},
	} {
		if d := cmp.Diff(c.want, labels(c.records)); d != "" {
			t.Error(d)
		}
	}
}

func TestPowerOfTwo(t *testing.T) {
	for v, want := range map[float64]string{65536: "2¹⁶", 1: "2⁰", 0.5: "2⁻¹", 3: "3", 0: "0"} {
		if got := powerOfTwo(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
