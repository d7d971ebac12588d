package runs

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/cpu"
)

// Environment is what a result depends on beside the configuration. ReadEnvironment fills what the process knows; the
// caller adds the device.
type Environment struct {
	Version     string   `json:"version"`
	Commit      string   `json:"commit,omitempty"`
	CommitTime  string   `json:"commit_time,omitempty"`
	Modified    bool     `json:"modified"` // built from a work tree with changes that are not committed
	GoVersion   string   `json:"go_version"`
	OS          string   `json:"os"`
	Arch        string   `json:"arch"`
	Command     []string `json:"command"`
	CPU         string   `json:"cpu,omitempty"`
	CPUFeatures []string `json:"cpu_features"`
	CPUs        int      `json:"cpus"`
	GOMAXPROCS  int      `json:"gomaxprocs"`
	Device      string   `json:"device,omitempty"`
	ISA         string   `json:"isa,omitempty"`
	Threads     int      `json:"threads,omitempty"`
	GPU         string   `json:"gpu,omitempty"`
	GPUDriver   string   `json:"gpu_driver,omitempty"`
	GPUBytes    int64    `json:"gpu_memory_bytes,omitempty"`
}

// ReadEnvironment describes this process and its machine.
func ReadEnvironment() Environment {
	e := Environment{
		GoVersion:   runtime.Version(),
		OS:          runtime.GOOS,
		Arch:        runtime.GOARCH,
		Command:     os.Args,
		CPU:         cpuName(),
		CPUFeatures: cpuFeatures(),
		CPUs:        runtime.NumCPU(),
		GOMAXPROCS:  runtime.GOMAXPROCS(0),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return e
	}
	e.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			e.Commit = s.Value
		case "vcs.time":
			e.CommitTime = s.Value
		case "vcs.modified":
			e.Modified = s.Value == "true"
		}
	}
	return e
}

// cpuName is the processor's name where the system tells it in /proc/cpuinfo.
func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cpuFeatures lists those instruction sets that a kernel might use.
func cpuFeatures() []string {
	have := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"sse4.1", cpu.X86.HasSSE41},
		{"avx", cpu.X86.HasAVX},
		{"avx2", cpu.X86.HasAVX2},
		{"fma", cpu.X86.HasFMA},
		{"avx512f", cpu.X86.HasAVX512F},
		{"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512dq", cpu.X86.HasAVX512DQ},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"avx512vnni", cpu.X86.HasAVX512VNNI},
		{"asimd", cpu.ARM64.HasASIMD},
		{"asimdhp", cpu.ARM64.HasASIMDHP},
		{"sve", cpu.ARM64.HasSVE},
		{"sve2", cpu.ARM64.HasSVE2},
	} {
		if f.has {
			have = append(have, f.name)
		}
	}
	return have
}
