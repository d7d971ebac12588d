//go:build accuracy

package trainer

import (
	"context"
	"testing"

	"halfstep/configs"
)

// TestAccuracy trains the reference CNN for two epochs on the real MNIST in each precision. All reach about 98%; the gate is
// far enough below that no seed fails it.
func TestAccuracy(t *testing.T) {
	for _, name := range []string{"cnn", "cnn_amp", "cnn_bf16"} {
		t.Run(name, func(t *testing.T) {
			r, err := configs.Load(name, []string{"epochs=2", "runs_dir=" + t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := Train(context.Background(), r, SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("accuracy %.4f in %.1f s, %.0f images/s, %d skipped", *s.TestAccuracy, s.Seconds, s.ImagesPerS, s.SkippedSteps)
			if *s.TestAccuracy < 0.97 {
				t.Errorf("test accuracy %.4f, want at least 0.97", *s.TestAccuracy)
			}
		})
	}
}
