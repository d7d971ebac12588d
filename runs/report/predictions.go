package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"

	"halfstep/runs"
)

// predictions is what the page shows of one run's predictions.
type predictions struct {
	Name   string // empty where the page is of one run
	Open   bool
	Matrix figure
	Note   string
	Images []classified
}

// classified is one picture.
type classified struct {
	URL     template.URL // the picture itself, as PNG in base64
	Caption string
	Detail  string
}

// addPredictions shows the confusion matrix and the worst-classified images of the runs that have them; of several runs the
// first is unfolded.
func (c *content) addPredictions(records []*runs.Record) error {
	names := labels(records)
	for i, r := range records {
		p := r.Predictions
		if p == nil {
			continue
		}
		v := predictions{
			Open:   len(c.Predictions) == 0,
			Matrix: figure{Title: "Confusion matrix of the test set", SVG: drawConfusion(p.Confusion), Note: "Row: label. Column: prediction. Stronger: more images, right and wrong apart."},
			Note:   fmt.Sprintf("The %d of %d test images with the largest loss: label → prediction, and its probability.", len(p.Worst), p.Samples),
		}
		if len(records) > 1 {
			v.Name = names[i]
		}
		for _, s := range p.Worst {
			url, err := picture(s.Pixels, p.Shape)
			if err != nil {
				return err
			}
			v.Images = append(v.Images, classified{url, caption(s), detail(s)})
		}
		c.Predictions = append(c.Predictions, v)
	}
	return nil
}

func caption(s runs.Sample) string {
	if s.Probability == nil {
		return fmt.Sprintf("%d → not finite", s.Label)
	}
	return fmt.Sprintf("%d → %d, %.0f%%", s.Label, s.Predicted, 100**s.Probability)
}

func detail(s runs.Sample) string {
	if s.Loss == nil {
		return fmt.Sprintf("test image %d", s.Index)
	}
	return fmt.Sprintf("test image %d: loss %.2f", s.Index, *s.Loss)
}

// picture is an image [H,W,C] as a data URL. One channel is grey, three are colours; of others the first is shown.
func picture(pixels []byte, shape []int) (template.URL, error) {
	h, w, c := shape[0], shape[1], shape[2]
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range h * w {
		p := pixels[i*c:][:c]
		grey := color.NRGBA{p[0], p[0], p[0], 255}
		if c == 3 {
			grey.G, grey.B = p[1], p[2]
		}
		m.SetNRGBA(i%w, i/w, grey)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		return "", fmt.Errorf("report: picture: %w", err)
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// maxNumbered is how many classes a confusion matrix may have to show its numbers.
const maxNumbered = 12

// drawConfusion is a square of cells. Right ones and wrong ones are coloured each by their own largest count, since a good
// model has hundreds of the one beside single ones of the other.
func drawConfusion(matrix [][]int) template.HTML {
	const left, top, size = 34, 22, 380
	s := new(svg)
	n := len(matrix)
	cell := float64(size) / float64(n)
	right, wrong := largestCounts(matrix)
	s.printf(`<svg class="confusion" viewBox="0 0 %d %d" role="img" aria-label="Confusion matrix">`, left+size+4, top+size+4)
	every := (n + maxNumbered - 1) / maxNumbered
	for label, row := range matrix {
		y := top + cell*float64(label)
		if label%every == 0 {
			s.text(left-8, y+cell/2+4, "tick", "end", fmt.Sprint(label))
			s.text(left+cell*(float64(label)+0.5), top-8, "tick", "middle", fmt.Sprint(label))
		}
		for k, count := range row {
			class, share := "c1", float64(count)/float64(wrong)
			if k == label {
				class, share = "c0", float64(count)/float64(right)
			}
			x := left + cell*float64(k)
			s.printf(`<rect class="fill %s" fill-opacity="%.2f" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d taken for %d: %d</title></rect>`,
				class, 0.04+0.56*share, x+1, y+1, cell-2, cell-2, label, k, count)
			if count > 0 && n <= maxNumbered {
				s.text(x+cell/2, y+cell/2+4, "count", "middle", fmt.Sprint(count))
			}
		}
	}
	s.WriteString(`</svg>`)
	return template.HTML(s.String())
}

// largestCounts are the largest count on the diagonal and off it, at least 1.
func largestCounts(matrix [][]int) (right, wrong int) {
	right, wrong = 1, 1
	for label, row := range matrix {
		for k, count := range row {
			if k == label {
				right = max(right, count)
			} else {
				wrong = max(wrong, count)
			}
		}
	}
	return right, wrong
}
