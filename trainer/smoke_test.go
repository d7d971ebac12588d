package trainer

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
	"fmt"

	"halfstep/configs"
	"halfstep/data"
	"halfstep/device/cpu"
	"halfstep/runs"
)

func TestSmoke(t *testing.T) {
	name := os.Getenv("SMOKE")
	if name == "" {
		t.Skip("only by hand")
	}
	over := strings.Fields(os.Getenv("OVER"))
	r, err := configs.Load(name, over)
	if err != nil {
		t.Fatal(err)
	}
	set, err := data.Open(r.Config.Data, r.Config.Seed)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	tr, err := New(r.Config, set, dev, Options{Emit: func(e runs.Event) { fmt.Printf("%s %+v\n", e.Name(), e) }})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(tr.Program())
	fmt.Printf("%+v peak %d build %v\n", tr.Memory(), tr.Memory().Peak(), time.Since(start))
	ns, _ := tr.train.exec.Profile(context.Background())
	ns, _ = tr.train.exec.Profile(context.Background())
	for k, i := range tr.Program().Instrs {
		fmt.Printf("%8.3f ms %s %s\n", float64(ns[k])/1e6, i.Layer, i.Op.Name())
	}
	tr.initialise()
	res, err := tr.Fit(context.Background())
	fmt.Printf("%+v %v\n", res, err)
	if res.Test != nil {
		fmt.Printf("%+v\n", *res.Test)
	}
}
