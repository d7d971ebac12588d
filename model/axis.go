package model

// axis is a feature dimension. Layers that keep the features in place share it, so that parameters along it learn its
// order, even when a residual block fixes that order after they were made.
type axis struct {
	image []int // [H,W,C] when it runs over a flattened image; nil: any order, the same as PyTorch's
	same  *axis // the axis that this one is added to
}

// paramAxes are the feature dimensions of a parameter: K of a linear weight, and its last one.
type paramAxes struct{ in, out *axis }

// follow makes a the same dimension as b: a residual block adds them. It changes nothing when they are the same already.
func (a *axis) follow(b *axis) {
	if a, b = a.root(), b.root(); a != b {
		a.same = b
	}
}

func (a *axis) root() *axis {
	for a.same != nil {
		a = a.same
	}
	return a
}

// order is [H,W,C] of a flattened image whose order differs from PyTorch's; else nil.
func (a *axis) order() []int {
	if a == nil {
		return nil
	}
	s := a.root().image
	if len(s) == 0 || s[2] == 1 || s[0]*s[1] == 1 {
		return nil
	}
	return s
}

// resolveAxes writes the orders found into parameters and batch norms.
func (b *builder) resolveAxes() {
	for i := range b.m.Params {
		b.m.Params[i].FlattenShape = b.axes[i].in.order()
		b.m.Params[i].OutFlattenShape = b.axes[i].out.order()
	}
	for i := range b.m.BatchNorms {
		b.m.BatchNorms[i].FlattenShape = b.stats[i].order()
	}
}
