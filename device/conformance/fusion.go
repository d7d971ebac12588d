package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"halfstep/device"
	"halfstep/program"
)

// networks are random ones and a wider one.
func (o Options) networks() []network {
	n := 24
	if o.Slow {
		n = 6
	}
	var r []network
	for seed := range n {
		r = append(r, randomNetwork(uint64(seed)))
	}
	if !o.Slow {
		r = append(r, wideNetwork())
	}
	return r
}

// fusion runs a training step of random networks in each dtype without fusion, with all of the device's fusions, with some of
// them, and on the reference device: losses and gradients must agree.
func fusion(t *testing.T, dev device.Device, o Options) {
	var other device.Device
	if o.Reference != nil {
		other = o.Reference(t)
	}
	seen := map[string]bool{}
	for _, d := range o.dtypes() {
		t.Run(d.String(), func(t *testing.T) {
			share := 0.0
			for _, n := range o.networks() {
				s, err := compareFusions(dev, other, n, d, seen)
				if err != nil {
					t.Errorf("network %s: %v", n.name, err)
				}
				share = max(share, s)
			}
			t.Logf("%d networks, largest share of a tolerance %.3f", len(o.networks()), share)
		})
	}
	if !o.Slow {
		wantFusions(t, dev, seen)
	}
}

// limit is the relative difference allowed between two ways to run a step. Where sums of K terms run in another order they
// differ by about e = sqrt(K) float32 roundings of random signs. Stored in a half type, a share of e/eps of the elements comes
// out one unit eps apart, which is sqrt(e·eps) in the 2-norm. The differences that the instructions make add up likewise. A
// factor of 16 is left for how a network amplifies them.
func limit(p *program.Program, d program.DType) float64 {
	terms := 0
	for _, v := range p.Values {
		if v.Role == program.RoleActivation {
			terms = max(terms, v.Elems())
		}
	}
	e := eps32 * math.Sqrt(float64(terms))
	return 16 * math.Sqrt(float64(len(p.Instrs))) * math.Sqrt(e*max(e, epsilon(d)))
}

func compareFusions(dev, other device.Device, n network, d program.DType, seen map[string]bool) (share float64, err error) {
	train := func(dev device.Device, fusions []program.Rule) (outcome, *program.Program, error) {
		t, err := newTraining(n, d, fusions)
		if err != nil {
			return nil, nil, err
		}
		r, err := t.run(dev, 1)
		return r, t.p, err
	}
	plain, p, err := train(dev, nil)
	if err != nil {
		return 0, err
	}
	tol := limit(p, d)
	against := func(what string, dev device.Device, fusions []program.Rule) error {
		r, q, err := train(dev, fusions)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, i := range q.Instrs {
			seen[i.Op.Name()] = true
		}
		s, err := differ(r, plain, tol)
		share = max(share, s)
		if err != nil {
			return fmt.Errorf("%s against unfused: %w", what, err)
		}
		return nil
	}
	if err := against("fused", dev, dev.Fusions()); err != nil {
		return share, err
	}
	some := subset(rand.New(rand.NewPCG(n.spec.Seed, 5)), dev.Fusions())
	if err := against(fmt.Sprintf("fused by %q", some), dev, some); err != nil {
		return share, err
	}
	if other != nil {
		return share, against("reference device", other, nil)
	}
	return share, nil
}

// wantFusions fails when the networks made none of the instructions that a rule is for.
func wantFusions(t *testing.T, dev device.Device, seen map[string]bool) {
	made := map[program.Rule]string{
		program.FuseConvReLU: "conv2d_relu", program.FuseConvReLUPool: "conv2d_relu_max_pool", program.FuseConvBackward: "conv2d_backward",
		program.FuseLinearReLU: "linear_relu", program.FuseLinearGrads: "linear_grad_x_relu",
	}
	for _, r := range dev.Fusions() {
		if name := made[r]; name == "" || !seen[name] {
			t.Errorf("no network tried the fusion %q: instructions %v", r, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// Identical trains random networks for three steps on each device in all dtypes: everything that a step leaves behind must be
// the same bit for bit. The devices differ in nothing that may change a result, as the number of threads.
func Identical(t *testing.T, o Options, devices ...device.Device) {
	for _, d := range o.dtypes() {
		for _, n := range o.networks() {
			var first outcome
			for k, dev := range devices {
				tr, err := newTraining(n, d, dev.Fusions())
				if err != nil {
					t.Fatal(err)
				}
				r, err := tr.run(dev, 3)
				if err != nil {
					t.Fatalf("network %s: %v", n.name, err)
				}
				if first == nil {
					first = r
				}
				for name, b := range first {
					if !bytes.Equal(r[name], b) {
						t.Errorf("network %s, %s: device %d leaves another %s than device 0", n.name, d, k, name)
					}
				}
			}
		}
	}
}
