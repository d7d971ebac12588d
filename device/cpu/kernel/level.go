// Package kernel holds the CPU's inner loops, one set for each level of the instruction set. A routine in assembly names
// its portable Go twin in its doc comment; the tests compare the two.
package kernel

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/cpu"
)

// Level is an instruction-set level. Each includes those before it.
type Level uint8

// The levels. AVX2 means AVX2 with FMA and F16C.
const (
	Portable Level = iota
	AVX2
	AVX512
	AVX512BF16
)

var levelNames = [...]string{"portable", "avx2", "avx512", "avx512bf16"}

func (l Level) String() string { return levelNames[l] }

// LevelEnv is the environment variable that lowers the level.
const LevelEnv = "HALFSTEP_CPU"

// Levels lists the levels this machine can run, lowest first.
func Levels() []Level {
	r := []Level{Portable}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && hasF16C() {
		r = append(r, AVX2)
		// BW, VL and DQ come with every AVX-512 machine that has BF16 and with all since Skylake.
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ {
			r = append(r, AVX512)
			if cpu.X86.HasAVX512BF16 {
				r = append(r, AVX512BF16)
			}
		}
	}
	return r
}

// Best is the highest level of this machine, or the one that HALFSTEP_CPU asks for.
func Best() (Level, error) {
	have := Levels()
	want := os.Getenv(LevelEnv)
	if want == "" {
		return have[len(have)-1], nil
	}
	for _, l := range have {
		if l.String() == want {
			return l, nil
		}
	}
	if !slices.Contains(levelNames[:], want) {
		return 0, fmt.Errorf("%s=%s: no such level, want one of %v", LevelEnv, want, have)
	}
	return 0, fmt.Errorf("%s=%s: this machine has %v only", LevelEnv, want, have)
}
