package sqlite

import (
	"encoding/binary"

	"github.com/superstep-dev/superstep/runlog"
)

// maxRow is how many bytes of frames a row of the table records has, unless one frame has more.
const maxRow = 64 << 10

// cut takes the first frame off a row, or all of it if its length is damaged.
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

// nextRow checks a row, which has the frames behind those that the chain has seen, up to
// record seq, and gives their records to fn. The error is that of Chain.Next.
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
