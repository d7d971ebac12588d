package runs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const docsFile = "../docs/LOGS.md"

var (
	heading = regexp.MustCompile("(?m)^##+ (.*)$")
	keyRow  = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]+) \\| ([^|]*)\\| ([^|]+) \\|$")
	example = regexp.MustCompile("(?s)\\*\\*([^*]+)\\*\\*[^`]*```sh\n(.*?)```")
)

// docSections cuts the page at its headings.
func docSections(t *testing.T) map[string]string {
	text := read(t, docsFile)
	at := heading.FindAllStringSubmatchIndex(text, -1)
	sections := map[string]string{}
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		sections[strings.Trim(text[m[2]:m[3]], "`")] = text[m[1]:end]
	}
	return sections
}

func docKeys(section string) []Key {
	var keys []Key
	for _, row := range keyRow.FindAllStringSubmatch(section, -1) {
		typ, optional := strings.CutSuffix(row[2], "?")
		keys = append(keys, Key{row[1], typ, optional})
	}
	return keys
}

// docs/LOGS.md lists every key of every event, in order, with its type, and nothing else.
func TestDocsMatchEvents(t *testing.T) {
	sections := docSections(t)
	names := map[string]bool{}
	for _, e := range events() {
		names[e.Name()] = true
		if d := cmp.Diff(docKeys(sections[e.Name()]), Keys(e)); d != "" {
			t.Errorf("%s (- documented, + logged):\n%s", e.Name(), d)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatch(read(t, docsFile), -1) {
		if !names[m[1]] {
			t.Errorf("%s is documented, but there is no such event", m[1])
		}
	}
	if d := cmp.Diff(Keys(Summary{}), Keys(RunEnd{})); d != "" {
		t.Errorf("summary and run_end differ: %s", d)
	}
	base := docKeys(sections["Every line"])
	want := []Key{{"level", "string", false}, {"ts", "string", false}, {"event", "string", false}, {"run", "string", false}}
	if d := cmp.Diff(want, base); d != "" {
		t.Error(d)
	}
}

// predictions.json has the documented keys, in order.
func TestDocsMatchPredictions(t *testing.T) {
	r := sampleRun(t, t.TempDir(), Options{})
	var documented, written []string
	for _, k := range docKeys(docSections(t)["Predictions"]) {
		documented = append(documented, k.Name)
	}
	text := read(t, r.Dir, PredictionsFile)
	before, worst, _ := strings.Cut(text, `"worst":[`)
	first, _, _ := strings.Cut(worst, "}")
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(before+`"worst":`+first, -1) {
		written = append(written, m[1])
	}
	if d := cmp.Diff(documented, written); d != "" {
		t.Errorf("- documented, + written:\n%s", d)
	}
}

func TestDocsUnits(t *testing.T) {
	for name, section := range docSections(t) {
		for _, row := range keyRow.FindAllStringSubmatch(section, -1) {
			key, unit := row[1], strings.TrimSpace(row[3])
			if strings.HasSuffix(key, "bytes") != (unit == "bytes") || strings.HasSuffix(key, "seconds") != (unit == "s") ||
				strings.HasSuffix(key, "accuracy") != (unit == "share") {
				t.Errorf("%s: %s has unit %q", name, key, unit)
			}
		}
	}
}

// The example for resumed runs leaves out what Open leaves out.
func TestDocsExampleOfResume(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("runs where jq is installed")
	}
	r := sampleRun(t, t.TempDir(), Options{})
	again, err := Resume(r.Dir, Resumed{Epoch: 1, Step: 60}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Log(Step{Epoch: 1, Step: 70, TrainLoss: 0.5})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range example.FindAllStringSubmatch(read(t, docsFile), -1) {
		if e[1] != "The loss curve of a resumed run" {
			continue
		}
		c := exec.Command("sh", "-c", e[2])
		c.Dir, c.Stderr = r.Dir, os.Stderr
		if got, err := c.Output(); err != nil || string(got) != "50\t0.75\n70\t0.5\n" {
			t.Errorf("%q, %v; want steps 50 and 70", got, err)
		}
		return
	}
	t.Error("no such example")
}

// Every jq example runs on the sample run and answers its question.
func TestDocsExamples(t *testing.T) {
	want := map[string]string{
		"The loss curve":                  "50\t0.75\n100\t\n",
		"The loss curve of a resumed run": "50\t0.75\n100\t\n",
		"The best epoch":                  "epoch 2: 0.99\n",
		"Which steps were skipped":        "61 conv2/weight scale 65536 -> 32768\n",
		"The path of the loss scale":      "61\tbackoff\t32768\n200\tgrowth\t65536\n",
		"Memory":                          "mem_planned_bytes 28\nparameters_bytes 1\nhalf_copies_bytes 2\ngradients_bytes 3\noptimizer_state_bytes 4\nactivations_bytes 5\nworkspace_bytes 6\nresident_data_bytes 7\nmem_peak_bytes 28\n",
		"Throughput":                      "1\t20000\n2\t21000\n",
		"Losses that were not finite":     "step 100 nan\n",
		"What is mistaken for what":       "0 taken for 1: 1\n",
		"Several runs side by side":       "%s\tfloat16\t512\t0.98\t20500\n",
	}
	r := sampleRun(t, t.TempDir(), Options{})
	examples := example.FindAllStringSubmatch(read(t, docsFile), -1)
	if len(examples) != len(want) {
		t.Errorf("%d examples, %d answers", len(examples), len(want))
	}
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("runs where jq is installed")
	}
	for _, e := range examples {
		question, command := e[1], e[2]
		answer, ok := want[question]
		if !ok {
			t.Errorf("no answer for %q", question)
		}
		c := exec.Command("sh", "-c", command)
		c.Dir = r.Dir
		if strings.Contains(command, "*/") {
			c.Dir = filepath.Dir(r.Dir)
			answer = fmt.Sprintf(answer, r.ID)
		}
		c.Stderr = os.Stderr
		got, err := c.Output()
		if err != nil {
			t.Errorf("%s: %v", question, err)
		}
		if d := cmp.Diff(answer, string(got)); d != "" {
			t.Errorf("%s: %s", question, d)
		}
	}
}
