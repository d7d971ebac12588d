package trainer

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// peakRSS is the largest resident memory of this process so far, in bytes, as the system reports it; 0 where it does not.
func peakRSS() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			var kb int64
			fmt.Sscanf(rest, "%d", &kb)
			return kb * 1024
		}
	}
	return 0
}
