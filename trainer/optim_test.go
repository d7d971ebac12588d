package trainer

import (
	"slices"
	"testing"
)

// TestAMSGrad: in every checkpoint max_exp_avg_sq is the largest exp_avg_sq of all updates so far, some of it above the present
// one, and training goes another way than Adam's.
func TestAMSGrad(t *testing.T) {
	set, dev := images(t, 200, 0), open(t, nil, 0)
	c := load(t, smallCNN, "checkpoint.steps=1", "optim.amsgrad=true").Config
	_, r, _ := fit(t, c, set, dev)
	const weight = "linear1.weight"
	var largest []float32
	above := 0
	for _, saved := range r.saved {
		second := floats(t, saved, "optimizer."+weight+".exp_avg_sq")
		if largest == nil {
			largest = make([]float32, len(second))
		}
		above = 0
		for k, v := range second {
			largest[k] = max(largest[k], v)
			if largest[k] > v {
				above++
			}
		}
		if got := floats(t, saved, "optimizer."+weight+".max_exp_avg_sq"); !slices.Equal(got, largest) {
			t.Fatalf("step %d: max_exp_avg_sq is not the largest exp_avg_sq", saved.Step)
		}
	}
	if above == 0 {
		t.Error("no exp_avg_sq ever fell: the test shows nothing")
	}
	t.Logf("%d checkpoints, %d of %d elements above exp_avg_sq at the end", len(r.saved), above, len(largest))

	c.Optim.AMSGrad = false
	_, adam, _ := fit(t, c, set, dev)
	if slices.Equal(floats(t, r.last(), weight), floats(t, adam.last(), weight)) {
		t.Error("the same weights as by Adam")
	}
}
