package script

const MaxOutput = maxOutput

var (
	ErrChanged = errChanged
	Load       = load
)
