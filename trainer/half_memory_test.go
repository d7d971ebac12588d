package trainer

import (
	"strings"
	"testing"

	"halfstep/configs"
)

// TestHalfNeedsLess plans every shipped configuration: half precision takes less memory than float32, arenas below 64 KB
// aside. PyTorch's AMP takes more on the 3 x 4096 net.
func TestHalfNeedsLess(t *testing.T) {
	for _, name := range configs.Names() {
		var overrides []string
		if strings.HasSuffix(name, "tutorial_mlp") {
			overrides = append(overrides, "data.random.samples=512") // the rest of the data changes nothing here
		}
		r, err := configs.Load(name, overrides)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := PlanMemory(r, MemoryOptions{Precisions: []string{"fp32", "fp16", "bf16"}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		full := rows[0].PlannedPeakBytes
		for _, half := range rows[1:] {
			t.Logf("%s: %s %d bytes, fp32 %d", name, half.Precision, half.PlannedPeakBytes, full)
			if half.PlannedPeakBytes >= full && half.Categories.Arena >= 64<<10 {
				t.Errorf("%s: %s plans %d bytes, fp32 %d", name, half.Precision, half.PlannedPeakBytes, full)
			}
		}
	}
}
