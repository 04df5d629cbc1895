package engine

// hunyuanDense is Hunyuan (dense): queries and keys are normalized after the rotation.
func hunyuanDense(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: halves, alphaKey: true, qkNorm: perHead, qkLast: true, gated: true}
}
