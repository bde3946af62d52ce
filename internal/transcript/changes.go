package transcript

// touch marks a task and all tasks around it as changed.
func (r *Run) touch(t *Task) {
	for ; t != nil && t.Rev != r.Rev; t = t.Parent {
		t.Rev = r.Rev
	}
}

// touchPart marks a part of a task as changed, and counts its size.
func (r *Run) touchPart(t *Task, p *Part) {
	p.Rev = r.Rev
	size := p.bytes()
	r.resize(t, size-p.size)
	p.size = size
}

// resize counts a change of the bytes of the parts of a task. If the task has ended, they count toward the window.
func (r *Run) resize(t *Task, by int) {
	t.size += by
	switch {
	case t.counted:
		r.kept += by
	case t.Ended():
		r.retire(t)
	}
}

// retire puts a task that has ended among those whose parts may be dropped.
func (r *Run) retire(t *Task) {
	if !t.counted {
		t.counted = true
		r.ended, r.kept = append(r.ended, t), r.kept+t.size
	}
}

// trim drops the parts of tasks that ended long ago, see Window.
func (r *Run) trim() {
	for r.Window > 0 && r.kept > r.Window && len(r.ended) > 1 {
		t := r.ended[0]
		r.ended = r.ended[1:]
		t.counted = false
		if r.kept -= t.size; !t.Ended() { // it runs again, and is counted when it ends
			continue
		}
		t.Dropped, t.Parts, t.inputs = t.Dropped+len(t.Parts), nil, nil
		t.size = 0
		for _, a := range t.Agents {
			a.Calls = nil
		}
		r.touch(t)
	}
}

// bytes is the size of a part.
func (p *Part) bytes() int {
	n := len(p.Text)
	if p.Tool != nil {
		n += len(p.Tool.Result) + len(p.Tool.Input)
	}
	return n
}
