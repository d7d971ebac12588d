//go:build linux && gpu && (amd64 || arm64)

package cuda

import "halfstep/program"

// merge builds the instructions at the start that one launch computes together, and tells how many they are, 0 of none.
// Small kernels take as long to start as to run.
func (b *builder) merge(instrs []*program.Instr) int {
	if group := optimizerGroup(instrs); len(group) > 0 {
		b.optimizers(group)
		return len(group)
	}
	if len(instrs) < 2 {
		return 0
	}
	first, second := instrs[0], instrs[1]
	switch o := first.Op.(type) {
	case program.GatherImages:
		if gathersLabels(first, second) {
			b.gatherImages(first, o, second)
			return 2
		}
	case program.RingRow:
		if then, ok := second.Op.(program.Advance); ok {
			b.ringRow(first, o, b.advanceArgs(second, then))
			return 2
		}
	}
	return 0
}

// gathersLabels tells whether an instruction gathers the labels of the images that another gathers.
func gathersLabels(images, labels *program.Instr) bool {
	_, ok := labels.Op.(program.GatherRows)
	return ok && labels.Out[0].DType == program.Int32 && len(labels.Out[0].Shape) == 1 && labels.In[1] == images.In[1] && labels.In[2] == images.In[2]
}

// optimizerGroup gives the instructions at the start that are the same optimizer with the same control: one launch
// updates their parameters, which have nothing to do with each other.
func optimizerGroup(instrs []*program.Instr) []*program.Instr {
	first, ok := instrs[0].Op.(program.OptimizerStep)
	if !ok {
		return nil
	}
	n := 1
	for n < len(instrs) && instrs[n].Op == first && instrs[n].In[1] == instrs[0].In[1] && instrs[n].In[2] == instrs[0].In[2] {
		n++
	}
	return instrs[:n]
}
