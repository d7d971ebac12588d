package trainer

import (
	"errors"
	"testing"

	"halfstep/device"
	"halfstep/device/cpu/kernel"
	"halfstep/device/devices"
	"halfstep/program"
	"halfstep/runs"
)

// unfused is a device without fusions.
type unfused struct{ device.Device }

func (unfused) Fusions() []program.Rule { return nil }

// TestGorgonia: whole training runs on Gorgonia's TapeMachine end with the bits of the lowered program, before fusion, on the
// portable level, and log the same: dropout, batch norm, smaller last batches, accumulation (its weight of 1/2 is exact),
// evaluation, every kind of loss.
func TestGorgonia(t *testing.T) {
	portable := kernel.Portable
	for name, overrides := range map[string][]string{
		"cross entropy":    {"optim.clip_grad_norm=1"},
		"accumulate 2":     {"optim.accumulate=2", "data.batch_size=16"},
		"one-hot mse":      {"loss={name: mse, reduction: batch_mean}"},
		"data on the host": {"data.resident=false"},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, smallCNN, append(overrides, "epochs=2", "log.every=1", "checkpoint.every=1", "data.validation=16")...).Config
			set := hold(images(t, 112, 40), 16)
			if name == "accumulate 2" { // all groups of two equal batches
				set = hold(images(t, 144, 40), 16)
			}
			_, want, _ := fit(t, c, set, unfused{open(t, &portable, 0)})
			d, err := devices.Open("gorgonia", devices.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			tr, got, _ := fit(t, c, set, d)
			sameRun(t, name, want.events, got.events, want.last(), got.last())
			if _, agrees := tr.Memory().Measured(d.Memory()); !agrees {
				t.Errorf("memory: measured %+v, planned %d", d.Memory(), tr.Memory().Peak())
			}
			t.Logf("loss of the last epoch %v on both", of[runs.Epoch](got)[1].TrainLoss)
		})
	}
}

// TestGorgoniaInHalf is refused: exit code 2.
func TestGorgoniaInHalf(t *testing.T) {
	d, err := devices.Open("gorgonia", devices.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = New(load(t, smallCNN, "amp.enabled=true").Config, images(t, 64, 0), d, Options{})
	var c *ConfigError
	if !errors.As(err, &c) || ExitCode(err) != ExitUsage || c.Key != "device" {
		t.Errorf("%v", err)
	}
}
