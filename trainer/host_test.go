package trainer

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device"
	"halfstep/device/devices"
	"halfstep/runs"
)

const hostImages = `
epochs: 2
data: {name: mnist, batch_size: 32, augment: {shift: 2}}
model: {layers: [{conv2d: {filters: 4, kernel: 3}}, relu, {max_pool2d: {size: 2}}, flatten, {dropout: {rate: 0.3}}, {linear: {units: 10}}]}
optim: {name: adam}
log: {every: 3}
`

const hostRandom = `
epochs: 2
data: {name: random, batch_size: 8, random: {samples: 44, features: 12, targets: 3}}
model: {layers: [{linear: {units: 6}}, tanh, {linear: {units: 3}}]}
loss: {name: mse}
log: {every: 2}
`

// Batches that the host makes are those of the resident data: training, validation, test and predictions agree bit for bit,
// with augmentation, smaller last batches, micro-batches, half precision and replayed overflows.
func TestHostBatchesEqualResident(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		overrides  []string
	}{
		{"float32", hostImages, nil},
		{"float16 that overflows", hostImages, []string{"amp.enabled=true", "amp.grad_scaler.init_scale=16777216"}},
		{"bfloat16", hostImages, []string{"amp.enabled=true", "amp.dtype=bfloat16"}},
		{"accumulation that overflows", hostImages, []string{"optim.accumulate=3", "amp.enabled=true", "amp.grad_scaler.init_scale=2097152"}},
		{"labels as rows", hostImages, []string{"loss.name=mse"}},
		{"no shuffle, no augmentation, drop last", hostImages, []string{"data.shuffle=false", "data.augment.shift=0", "data.drop_last=true"}},
		{"random data", hostRandom, []string{"data.validation=5"}},
		{"random data in bfloat16", hostRandom, []string{"amp.enabled=true", "amp.dtype=bfloat16"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := load(t, c.yaml, c.overrides...)
			var set *data.Set
			if r.Config.Data.Name == "random" {
				var err error
				if set, err = data.Open(r.Config.Data, r.Config.Seed); err != nil {
					t.Fatal(err)
				}
			} else {
				set = hold(images(t, 140, 70), 40) // batches of 32, 32, 32, 4; of 40; of 64, 6
			}
			want := trainedBy(t, r.Config, set)
			r.Config.Data.Resident = false
			got := trainedBy(t, r.Config, set)
			ignore := cmpopts.IgnoreFields
			opts := cmp.Options{
				ignore(runs.Step{}, "ImagesPerS"), ignore(runs.Evaluation{}, "Seconds", "ImagesPerS"),
				ignore(runs.Epoch{}, "Seconds", "EvalSeconds", "ImagesPerS", "MemPlannedBytes", "MemPeakBytes"),
				cmpopts.EquateNaNs(),
			}
			if d := cmp.Diff(want.events, got.events, opts); d != "" {
				t.Errorf("(- resident, + from the host):\n%s", d)
			}
			if d := cmp.Diff(want.predictions, got.predictions); d != "" {
				t.Errorf("predictions (- resident, + from the host):\n%s", d)
			}
			for k, x := range want.checkpoint.Tensors {
				if !bytes.Equal(x.Data, got.checkpoint.Tensors[k].Data) {
					t.Errorf("%s differs", x.Name)
				}
			}
			if len(want.events) < 5 {
				t.Errorf("only %d events", len(want.events))
			}
		})
	}
}

type trained struct {
	events      []runs.Event
	predictions *runs.Predictions
	checkpoint  *runs.Checkpoint
}

// trainedBy trains a configuration and checks what it says of memory.
func trainedBy(t *testing.T, c configs.Config, set *data.Set) trained {
	t.Helper()
	d := open(t, nil, 2)
	tr, rec, _ := fit(t, c, set, d)
	p, err := tr.Predictions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if peak, agrees := tr.Memory().Measured(d.Memory()); !agrees {
		t.Errorf("resident %v: peak %d bytes measured, %d planned", c.Data.Resident, peak, tr.Memory().Peak())
	}
	if tr.loader == nil != c.Data.Resident {
		t.Errorf("resident %v: loader %v", c.Data.Resident, tr.loader)
	}
	if !c.Data.Resident {
		if tr.loader.seconds <= 0 {
			t.Error("the loader took no time")
		}
		if n := tr.Memory().ResidentData; n > 4096 { // rates, and the weight of a micro-batch
			t.Errorf("%d bytes of resident data", n)
		}
	}
	return trained{rec.events, p, checkpoint(t, tr)}
}

// A replay is of the samples of the update in question, whatever batch the device holds.
func TestReplayFeedsItsOwnBatch(t *testing.T) {
	c := load(t, hostImages, "data.resident=false").Config
	tr := newTrainer(t, c, images(t, 140, 0), open(t, nil, 1), Options{})
	if err := tr.BeginEpoch(); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Turn(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.replay(t.Context(), 1, 32, 32); err != nil {
		t.Fatal(err)
	}
	got, err := device.Read[int32](tr.store, batchName("train", "labels"), 32)
	if err != nil {
		t.Fatal(err)
	}
	for k, n := range tr.loader.order[32:64] {
		if got[k] != tr.set.Train.Labels[n] {
			t.Fatalf("label %d is %d, want that of image %d, %d", k, got[k], n, tr.set.Train.Labels[n])
		}
	}
}

// Also on Gorgonia's machine.
func TestHostBatchesOnGorgonia(t *testing.T) {
	c := load(t, hostImages, "epochs=1").Config
	set := images(t, 70, 20)
	var loss [2]float64
	for k, resident := range []bool{true, false} {
		d, err := devices.Open(devices.Gorgonia, devices.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		c.Data.Resident = resident
		_, rec, _ := fit(t, c, set, d)
		loss[k] = of[runs.Epoch](rec)[0].TrainLoss
	}
	if loss[0] != loss[1] {
		t.Errorf("loss %v resident, %v from the host", loss[0], loss[1])
	}
}

// The step of batches from the host gathers nothing.
func TestHostBatchProgram(t *testing.T) {
	r := load(t, hostImages, "data.resident=false")
	tr := newTrainer(t, r.Config, images(t, 64, 0), open(t, nil, 1), Options{})
	for _, i := range tr.Program().Instrs {
		if i.Phase == 0 {
			t.Errorf("%s in the input phase", i.Op.Name())
		}
	}
}
