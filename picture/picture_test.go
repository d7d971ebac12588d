package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"halfstep/configs"
	"halfstep/data"
)

var mnist = sync.OnceValues(func() (*data.Set, error) { return data.Open(configs.Data{Name: "mnist"}, 0) })

// digits are test images of MNIST, 28×28.
func digits(t *testing.T, n int) [][]byte {
	t.Helper()
	set, err := mnist()
	if err != nil {
		t.Fatal(err)
	}
	var r [][]byte
	for i := range n {
		r = append(r, set.Test.Images[i*784:][:784])
	}
	return r
}

// at is the brightness of a digit between its pixels, 0 outside.
func at(d []byte, x, y float64) float64 {
	pixel := func(x, y int) float64 {
		if x < 0 || y < 0 || x > 27 || y > 27 {
			return 0
		}
		return float64(d[y*28+x]) / 255
	}
	x0, y0 := math.Floor(x), math.Floor(y)
	fx, fy := x-x0, y-y0
	i, j := int(x0), int(y0)
	return (pixel(i, j)*(1-fx)+pixel(i+1, j)*fx)*(1-fy) + (pixel(i, j+1)*(1-fx)+pixel(i+1, j+1)*fx)*fy
}

// drawing is a digit, magnified, somewhere on a larger ground.
type drawing struct {
	digit       []byte
	zoom        float64
	w, h        int
	left, top   float64
	ink, ground color.NRGBA
}

func (d drawing) image() image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, d.w, d.h))
	for y := range d.h {
		for x := range d.w {
			v := at(d.digit, (float64(x)-d.left)/d.zoom, (float64(y)-d.top)/d.zoom)
			mix := func(ink, ground uint8) uint8 { return uint8(v*float64(ink) + (1-v)*float64(ground) + 0.5) }
			m.SetNRGBA(x, y, color.NRGBA{mix(d.ink.R, d.ground.R), mix(d.ink.G, d.ground.G), mix(d.ink.B, d.ground.B), mix(d.ink.A, d.ground.A)})
		}
	}
	return m
}

// TestConvert: however a digit of MNIST is drawn, what comes out is close to it: most pixels within the blur of two
// resamplings. A centre off by half a pixel gives a mean difference of 0.063.
func TestConvert(t *testing.T) {
	black, white := color.NRGBA{0, 0, 0, 255}, color.NRGBA{255, 255, 255, 255}
	for _, c := range []struct {
		name string
		d    drawing
	}{
		{"light on dark, large", drawing{zoom: 7, w: 300, h: 260, left: 60, top: 30, ink: white, ground: black}},
		{"dark on light, wide", drawing{zoom: 3, w: 400, h: 120, left: 210, top: 12, ink: black, ground: white}},
		{"blue on yellow paper", drawing{zoom: 5, w: 150, h: 200, left: 3, top: 50, ink: color.NRGBA{20, 30, 160, 255}, ground: color.NRGBA{250, 240, 150, 255}}},
		{"little contrast", drawing{zoom: 4, w: 140, h: 140, left: 10, top: 10, ink: color.NRGBA{90, 90, 90, 255}, ground: color.NRGBA{120, 120, 120, 255}}},
		{"dark on transparent", drawing{zoom: 4, w: 140, h: 140, left: 10, top: 10, ink: black, ground: color.NRGBA{0, 0, 0, 0}}},
		{"light on transparent", drawing{zoom: 4, w: 140, h: 140, left: 10, top: 10, ink: white, ground: color.NRGBA{255, 255, 255, 0}}},
		{"smaller than the target", drawing{zoom: 0.9, w: 27, h: 27, left: 1, top: 1, ink: white, ground: black}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sum, worst float64
			list := digits(t, 50)
			for _, digit := range list {
				c.d.digit = digit
				got, err := Convert(c.d.image(), For("mnist", 28, 28))
				if err != nil {
					t.Fatal(err)
				}
				d := difference(got, digit)
				sum += d
				worst = max(worst, d)
			}
			mean := sum / float64(len(list))
			if !(mean < 0.045 && worst < 0.1) {
				t.Errorf("mean difference %.4f, worst %.4f of 1", mean, worst)
			}
			t.Logf("mean difference %.4f, worst %.4f of 1", mean, worst)
		})
	}
}

// difference is the mean over pixels in 0..1.
func difference(a, b []byte) float64 {
	var sum float64
	for i := range a {
		sum += math.Abs(float64(a[i])-float64(b[i])) / 255
	}
	return sum / float64(len(a))
}

// TestSameSize: an image of the target's size is taken byte by byte, and inverted where it is dark on light.
func TestSameSize(t *testing.T) {
	for _, digit := range digits(t, 20) {
		light, dark := image.NewGray(image.Rect(5, 5, 33, 33)), image.NewGray16(image.Rect(0, 0, 28, 28))
		copy(light.Pix, digit)
		for i, v := range digit {
			dark.SetGray16(i%28, i/28, color.Gray16{0xffff - 257*uint16(v)})
		}
		for name, m := range map[string]image.Image{"light on dark": light, "dark on light, 16 bits": dark} {
			if got, err := Convert(m, For("mnist", 28, 28)); err != nil || !bytes.Equal(got, digit) {
				t.Errorf("%s: other bytes, %v", name, err)
			}
		}
	}
}

// TestWhole: other data sets fill the image to its edges.
func TestWhole(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 100, 200))
	for y := 50; y < 150; y++ {
		for x := 40; x < 60; x++ {
			m.SetGray(x, y, color.Gray{200})
		}
	}
	b, err := Convert(m, For("fashion_mnist", 28, 28))
	if err != nil {
		t.Fatal(err)
	}
	// A bar of 20×100 becomes 6×28 (28·20/100 = 5.6), in the middle.
	for i, v := range b {
		want := byte(0)
		if x := i % 28; x >= 11 && x < 17 {
			want = 255
		}
		if v != want {
			t.Fatalf("pixel %d,%d is %d, want %d", i%28, i/28, v, want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	digit := digits(t, 1)[0]
	m := drawing{digit: digit, zoom: 6, w: 200, h: 200, left: 16, top: 16, ink: color.NRGBA{0, 0, 0, 255}, ground: color.NRGBA{255, 255, 255, 255}}.image()
	for name, encode := range map[string]func(*bytes.Buffer) error{
		"a.png": func(b *bytes.Buffer) error { return png.Encode(b, m) },
		"a.jpg": func(b *bytes.Buffer) error { return jpeg.Encode(b, m, &jpeg.Options{Quality: 60}) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path, For("mnist", 28, 28))
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(got, digit); d > 0.05 {
			t.Errorf("%s: difference %.4f", name, d)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var even bytes.Buffer
	if err := png.Encode(&even, image.NewGray(image.Rect(0, 0, 50, 50))); err != nil {
		t.Fatal(err)
	}
	for path, word := range map[string]string{
		write("text.png", []byte("not an image")): "PNG, JPEG or GIF",
		write("even.png", even.Bytes()):           "shows nothing",
		filepath.Join(dir, "none.png"):            "no such file",
	} {
		if _, err := Load(path, For("mnist", 28, 28)); err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
