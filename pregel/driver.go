package pregel

// Check has the program look at the results of a superstep that is Complete. A driver
// calls it before Commit, and gives up with its error.
func (m *Machine[S, U, M]) Check() error {
	if m.prog.Check == nil {
		return nil
	}
	return m.prog.Check(m.tasks, m.results)
}
