package bench

import "fmt"

// Ratios of times this close to 1 count as no difference.
const noDifference = 0.05

// gain is a sentence about what a half precision, or tf32, gains over float32 at the same batch size, and why.
func gain(full, half evidence) string {
	speed := ratio(full.step, half.step)
	text := fmt.Sprintf("A step takes %.4g ms, in fp32 %.4g (%.2fx): ", 1e3*half.step, 1e3*full.step, speed)
	switch {
	case speed > 1+noDifference:
		return text + whyFaster(full, half)
	case speed < 1-noDifference:
		return text + half.precision() + " costs time here, for " + whyNot(full, half)
	}
	return text + half.precision() + " does not pay in time here, for " + whyNot(full, half)
}

func (e *evidence) precision() string {
	if e.tf32 {
		return "tf32"
	}
	return "half precision"
}

// fasterPeak reports whether the device's multiply-adds are faster in half.
func fasterPeak(full, half evidence) bool { return half.native && half.peak > 1.2*full.peak }

// traffic tells how many bytes a step moves in both.
func traffic(full, half evidence) string {
	return fmt.Sprintf("a step moves %.1f MB instead of %.1f", float64(half.bytes())/1e6, float64(full.bytes())/1e6)
}

// rates tells what multiply-adds reach in both: of a step's products, whatever bounds them.
func rates(full, half evidence) string {
	return fmt.Sprintf("multiply-adds run at %.0f GFLOP/s instead of %.0f", half.products().gflops(), full.products().gflops())
}

// whyFaster names what became faster: the products, where they are most of the step and run at a higher rate, or else the
// rest.
func whyFaster(full, half evidence) string {
	if half.tf32 { // nothing else changed
		return fmt.Sprintf("tf32 pays, for %s, on tensor cores.", rates(full, half))
	}
	before, after := full.products(), half.products()
	switch faster := before.seconds > full.seconds()/2 && after.gflops() > before.gflops()*(1+noDifference); {
	case faster && fasterPeak(full, half) && before.gflops()*1e9 > farFromPeak*full.peak:
		return fmt.Sprintf("half precision pays, for %s (at most %.0f and %.0f).", rates(full, half), half.peak/1e9, full.peak/1e9)
	case faster:
		return fmt.Sprintf("half precision pays, for %s, on operands half as wide.", rates(full, half))
	}
	return fmt.Sprintf("half precision pays, for %s.", traffic(full, half))
}

// seconds is the time of the profiled step.
func (e *evidence) seconds() float64 {
	total := e.loader
	for _, c := range e.instrs {
		total += c.seconds
	}
	return total
}

// whyNot names what keeps half precision from being faster, by what bounds the float32 step.
func whyNot(full, half evidence) string {
	switch full.shares().largest() {
	case boundInput:
		return "the input takes as long in any precision."
	case boundLaunch:
		return fmt.Sprintf("launching an instruction costs as much in any precision (%s, in fp32 %s).", half.launches(), full.launches())
	case boundMemory:
		if half.tf32 {
			return "a step moves as many bytes: what is stored stays float32."
		}
		return fmt.Sprintf("%s: master weights and optimizer state stay float32.", traffic(full, half))
	}
	switch {
	case full.products().seconds < full.seconds()/2 && half.tf32:
		return fmt.Sprintf("most of the step is no multiply-add; %s.", rates(full, half))
	case half.tf32:
		return rates(full, half) + "."
	case full.products().seconds < full.seconds()/2:
		return fmt.Sprintf("most of the step is no multiply-add and computed in float32; %s.", traffic(full, half))
	case !half.native:
		return fmt.Sprintf("the device multiplies %s in float32; %s.", half.dtype, rates(full, half))
	case !fasterPeak(full, half):
		return fmt.Sprintf("the device's multiply-adds are no faster in %s (at most %.0f GFLOP/s, %.0f in float32); %s.",
			half.dtype, half.peak/1e9, full.peak/1e9, rates(full, half))
	}
	return fmt.Sprintf("%s, though %.0f would be possible.", rates(full, half), half.peak/1e9)
}
