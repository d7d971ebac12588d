package configs

import "reflect"

// model checks each layer by itself; whether their shapes fit is found when the model is built.
func (v *validator) model(m *Model) {
	if len(m.Layers) == 0 {
		v.problem("model.layers", "a model needs at least one layer")
	}
	v.layers("model.layers", m.Layers)
}

func (v *validator) layers(key string, layers []Layer) {
	for i := range layers {
		v.layer(layerKey(key, i, layers[i].Kind), &layers[i])
	}
}

func (v *validator) layer(key string, l *Layer) {
	if !v.variant(key, l.Kind, reflect.TypeFor[Layer]()) {
		return
	}
	switch l.Kind {
	case "conv2d":
		v.needed(join(key, "filters"), l.Filters, l.Kind)
		v.needed(join(key, "kernel"), l.Kernel, l.Kind)
		atLeast(v, join(key, "stride"), l.Stride, 1)
		atLeast(v, join(key, "padding"), l.Padding, 0)
		v.weights(key, l)
	case "linear":
		v.needed(join(key, "units"), l.Units, l.Kind)
		v.weights(key, l)
	case "max_pool2d", "avg_pool2d":
		v.needed(join(key, "size"), l.Size, l.Kind)
		if _, written := v.at[join(key, "stride")]; written || l.Size > 0 {
			atLeast(v, join(key, "stride"), l.Stride, 1)
		}
	case "batch_norm":
		positive(v, join(key, "eps"), l.Eps)
		within(v, join(key, "momentum"), l.Momentum, 0, 1)
	case "dropout":
		below(v, join(key, "rate"), l.Rate, 0, 1)
	case "gelu":
		v.oneOf(join(key, "approximate"), l.Approximate, "none", "tanh")
	case "residual":
		if len(l.Layers) == 0 {
			v.problem(join(key, "layers"), "residual needs at least one layer")
		}
		v.layers(join(key, "layers"), l.Layers)
	}
}

// weights checks what linear and conv2d share.
func (v *validator) weights(key string, l *Layer) {
	v.init(join(key, "init"), l.Init)
	v.init(join(key, "bias_init"), l.BiasInit)
	if !l.Bias && l.BiasInit != defaultInit("default") {
		v.problem(join(key, "bias_init"), "there is no bias to initialise: bias is false")
	}
}

func (v *validator) init(key string, i Init) {
	if !v.variant(join(key, "name"), i.Name, reflect.TypeFor[Init]()) {
		return
	}
	switch i.Name {
	case "normal":
		atLeast(v, join(key, "std"), i.Std, 0)
	case "uniform":
		if i.Low > i.High {
			v.problem(join(key, "high"), "is %v, below low %v", i.High, i.Low)
		}
	}
}
