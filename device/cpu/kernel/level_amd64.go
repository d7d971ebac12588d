package kernel

// cpuid1c is register ECX of CPUID leaf 1.
func cpuid1c() uint32

// hasF16C tells of the half-precision conversions, which golang.org/x/sys/cpu does not report.
func hasF16C() bool { return cpuid1c()&(1<<29) != 0 }
