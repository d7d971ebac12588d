// Package picture turns an image file of any size and colour into the bytes that a model trained on IDX images expects:
// light ink on a black ground, in the data set's size and framing.
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // formats that Load reads
	_ "image/jpeg" //
	_ "image/png"  //
	"os"
	"slices"
)

// Target is what an image is brought to.
type Target struct {
	Height, Width int
	// Box is the longest side that the ink may have, as a share of the image's. MNIST fits its digits into 20 of 28 pixels and
	// puts their centre of mass in the middle (LeCun, Cortes, Burges, "The MNIST database of handwritten digits").
	Box float64
	// Center puts the centre of mass, not the bounding box, in the middle.
	Center bool
}

// For is the framing of a data set: that of MNIST for digits and letters, the whole image for all else.
func For(dataset string, height, width int) Target {
	switch dataset {
	case "mnist", "emnist":
		return Target{height, width, 20.0 / 28, true}
	}
	return Target{height, width, 1, false}
}

// Error is an image file that cannot be used.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("picture: %s: %v", e.Path, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Load reads a PNG, JPEG or GIF file. Its error is an *Error. [Height,Width]
func Load(path string, t Target) ([]byte, error) {
	b, err := load(path, t)
	if err != nil {
		return nil, &Error{path, err}
	}
	return b, nil
}

func load(path string, t Target) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Unwrap(err) // which names the path again
	}
	m, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%w (want PNG, JPEG or GIF)", err)
	}
	return Convert(m, t)
}

// Convert brings an image to the target. One that has the target's size already is taken as it is, so that images of the
// data set stay themselves; only dark ink on a light ground is inverted. Of any other the ground is made black, the ink is
// stretched to the full range, cut out, scaled by areas and put in place.
func Convert(m image.Image, t Target) ([]byte, error) {
	g := newGray(m)
	if g.w == 0 || g.h == 0 {
		return nil, fmt.Errorf("the image is empty")
	}
	g.inkOnBlack()
	if g.w == t.Width && g.h == t.Height {
		return g.bytes(), nil
	}
	if !g.stretch() {
		return nil, fmt.Errorf("the image shows nothing: all of it has one brightness")
	}
	return g.crop().fit(t).place(t).bytes(), nil
}

// gray is a picture of brightness in 0..1, or of ink once the ground is black.
type gray struct {
	w, h int
	v    []float64 // [h,w]
}

func blank(w, h int) *gray { return &gray{w, h, make([]float64, w*h)} }

// newGray takes the brightness by Rec. 601's weights. Where the image is transparent, it lies on black if what is drawn is
// light and on white if it is dark.
func newGray(m image.Image) *gray {
	b := m.Bounds()
	g := blank(b.Dx(), b.Dy())
	alpha := make([]float64, len(g.v))
	var light, solid float64
	for y := range g.h {
		for x := range g.w {
			r, gr, bl, a := m.At(b.Min.X+x, b.Min.Y+y).RGBA() // times alpha, 16 bits
			k := y*g.w + x
			g.v[k] = (0.299*float64(r) + 0.587*float64(gr) + 0.114*float64(bl)) / 0xffff
			alpha[k] = float64(a) / 0xffff
			light += g.v[k]
			solid += alpha[k]
		}
	}
	if light < solid/2 { // dark on average where it is drawn
		for k, a := range alpha {
			g.v[k] += 1 - a
		}
	}
	return g
}

// inkOnBlack inverts a picture whose ground, the median along its border, is light.
func (g *gray) inkOnBlack() {
	var border []float64
	for x := range g.w {
		border = append(border, g.v[x], g.v[(g.h-1)*g.w+x])
	}
	for y := range g.h {
		border = append(border, g.v[y*g.w], g.v[y*g.w+g.w-1])
	}
	slices.Sort(border)
	// Halfway between the darkest and the brightest, for pictures of little contrast.
	if border[len(border)/2] <= (slices.Min(g.v)+slices.Max(g.v))/2 {
		return
	}
	for k := range g.v {
		g.v[k] = 1 - g.v[k]
	}
}

// faint is the share of the full range that is taken for ground: paper is not even and JPEG adds noise.
const faint = 0.15

// stretch makes the ground 0 and the strongest ink 1; false where there is no ink.
func (g *gray) stretch() bool {
	sorted := slices.Sorted(slices.Values(g.v))
	low, high := sorted[len(sorted)/4], sorted[len(sorted)-1] // ground covers far more than a quarter
	if high-low < 1.0/64 {
		return false
	}
	for k, v := range g.v {
		v = (v - low) / (high - low)
		if v < faint {
			v = 0
		}
		g.v[k] = v
	}
	return true
}

// crop leaves the ink's bounding box.
func (g *gray) crop() *gray {
	left, top, right, bottom := g.w, g.h, 0, 0
	for y := range g.h {
		for x := range g.w {
			if g.v[y*g.w+x] > 0 {
				left, top, right, bottom = min(left, x), min(top, y), max(right, x+1), max(bottom, y+1)
			}
		}
	}
	c := blank(right-left, bottom-top)
	for y := range c.h {
		copy(c.v[y*c.w:][:c.w], g.v[(top+y)*g.w+left:])
	}
	return c
}

// fit scales the picture, keeping its proportions, so that its longer side fills the target's box.
func (g *gray) fit(t Target) *gray {
	scale := min(t.Box*float64(t.Width)/float64(g.w), t.Box*float64(t.Height)/float64(g.h))
	side := func(n int) int { return max(1, int(float64(n)*scale+0.5)) }
	return g.resize(side(g.w), side(g.h))
}

// resize gives each pixel the mean of the area it covers, and where the picture grows, of what lies between two.
func (g *gray) resize(w, h int) *gray {
	across := blank(w, g.h)
	for y := range g.h {
		resample(across.v[y*w:], 1, w, g.v[y*g.w:], 1, g.w)
	}
	r := blank(w, h)
	for x := range w {
		resample(r.v[x:], w, h, across.v[x:], w, g.h)
	}
	return r
}

// resample scales a line of from values to one of to. Each value is the mean of the source under a triangle as wide as two
// of its pixels, or two of the source's where it grows: area averaging one way, linear interpolation the other.
func resample(dst []float64, dstStride, to int, src []float64, srcStride, from int) {
	ratio := float64(from) / float64(to)
	reach := max(1, ratio)
	for i := range to {
		center := (float64(i)+0.5)*ratio - 0.5
		var sum, weight float64
		for j := max(0, int(center-reach)); j < from && float64(j) < center+reach; j++ {
			if w := 1 - abs(float64(j)-center)/reach; w > 0 {
				sum += w * src[j*srcStride]
				weight += w
			}
		}
		dst[i*dstStride] = sum / weight
	}
}

func abs(x float64) float64 { return max(x, -x) }

// place puts the picture in the middle of a black one of the target's size: its bounding box, or its centre of mass, which
// MNIST has at pixel 14 of 0 to 27.
func (g *gray) place(t Target) *gray {
	cx, cy := float64(g.w)/2, float64(g.h)/2
	if t.Center {
		cx, cy = g.centroid()
	}
	corner := func(size, part int, c float64) int {
		return min(max(0, int(float64(size)/2-c+0.5)), size-part)
	}
	left, top := corner(t.Width, g.w, cx), corner(t.Height, g.h, cy)
	r := blank(t.Width, t.Height)
	for y := range g.h {
		copy(r.v[(top+y)*r.w+left:], g.v[y*g.w:][:g.w])
	}
	return r
}

func (g *gray) centroid() (x, y float64) {
	var mass float64
	for k, v := range g.v {
		x += v * float64(k%g.w)
		y += v * float64(k/g.w)
		mass += v
	}
	return x / mass, y / mass
}

func (g *gray) bytes() []byte {
	b := make([]byte, len(g.v))
	for k, v := range g.v {
		b[k] = byte(min(max(v, 0), 1)*255 + 0.5)
	}
	return b
}
