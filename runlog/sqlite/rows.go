package sqlite

import (
	"encoding/binary"

	"github.com/superstep-dev/superstep/runlog"
)

// maxRow is the maximum size of a row of the table records, in bytes of frames, unless a single frame is larger.
const maxRow = 64 << 10

// cut splits the first frame off a row, or the whole row if the frame's length is damaged.
func cut(frames []byte) (frame, rest []byte) {
	if len(frames) >= 4 {
		if n := uint64(binary.LittleEndian.Uint32(frames)) + 4; n <= uint64(len(frames)) {
			return frames[:n:n], frames[n:]
		}
	}
	return frames, nil
}

// countFrames counts the frames of a row.
func countFrames(frames []byte) (n int) {
	for len(frames) > 0 {
		_, frames = cut(frames)
		n++
	}
	return n
}

// lastFrame returns the last frame of a row.
func lastFrame(frames []byte) []byte {
	for {
		frame, rest := cut(frames)
		if len(rest) == 0 {
			return frame
		}
		frames = rest
	}
}

// nextRow checks a row, whose frames follow the chain's last one and end with record seq, and calls fn with their records. It returns the errors of
// Chain.Next.
func nextRow(chain *runlog.Chain, seq uint64, frames []byte, fn func(*runlog.Record)) error {
	for {
		var frame []byte
		frame, frames = cut(frames)
		if chain.Seq >= seq {
			return chain.Damaged("something else is in its place")
		}
		rec, err := chain.Next(frame)
		if err != nil {
			return err
		}
		fn(&rec)
		if len(frames) == 0 {
			break
		}
	}
	if chain.Seq != seq {
		return chain.Damaged("it is missing in its row")
	}
	return nil
}
