package configs

import (
	"fmt"
	"math"
	"strconv"
)

// Normalised by a usual mean and standard deviation, pixels stay below 5 and spread over 2 to 4. Above largestInput they
// count as left at 0 to 255; below leastSpread as divided by 255 once too often.
const (
	largestInput = 50
	leastSpread  = 0.1
)

// warnings lists what is allowed, but seldom meant.
func (v *validator) warnings(c *Config) []Problem {
	var out []Problem
	warn := func(key, format string, args ...any) {
		out = append(out, Problem{v.position(key), key, fmt.Sprintf(format, args...)})
	}
	last := len(c.Model.Layers) - 1
	end := c.Model.Layers[last].Kind
	if end == "softmax" && c.Loss.Name == "cross_entropy" {
		warn(layerKey("model.layers", last, end), "the model ends in softmax and cross_entropy applies it again; leave it out")
	}
	if end == "sigmoid" && c.Loss.Name == "bce_with_logits" {
		warn(layerKey("model.layers", last, end), "the model ends in sigmoid and bce_with_logits applies it again; leave it out")
	}
	if n := c.Data.Normalize; c.Data.Name != "random" {
		low, high := (0-n.Mean)/n.Std, (1-n.Mean)/n.Std
		switch {
		case math.Max(math.Abs(float64(low)), math.Abs(float64(high))) > largestInput:
			warn("data.normalize", "inputs run from %.3g to %.3g, as pixels left at 0 to 255 do; "+
				"mean and std are those of pixels in 0 to 1", low, high)
		case high-low < leastSpread:
			warn("data.normalize", "inputs run from %.3g to %.3g only; mean and std are those of pixels in 0 to 1", low, high)
		}
	}
	return out
}

// layerKey is the dotted key of a layer: model.layers.0.conv2d, or model.layers.1 of one without fields.
func layerKey(list string, i int, kind string) string {
	key := join(list, strconv.Itoa(i))
	for _, k := range layerKinds() {
		if k.name == kind && len(k.keys) > 0 {
			return join(key, kind)
		}
	}
	return key
}
