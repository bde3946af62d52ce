package main

import "slices"

// The tests that notice things, the quick ones first.
const (
	ofEngine  test = ". ./graph/..."
	inMemory  test = "./internal/crash -run ^TestCrashInMemory$"
	ofSqlite  test = "./runlog/sqlite"
	onSqlite  test = "./internal/crash -run ^TestCrashOfWorker$/^sqlite$"
	raceOn    test = "./internal/crash -run ^TestCrashRace$/^sqlite$"
	ofGraphs  test = "./graph/graphtest -run ^TestKillEverywhere"
	ofKeys    test = "./graph/graphtest -run ^TestKillEverywhereFinds"
	ofJournal test = "./journal ./runlog ./runlog/runlogtest"
	ofStop    test = "./internal/crash -run ^TestCrash(OfStop|Frames)$"
	ofFile    test = "./runlog/file"
	onFile    test = "./internal/crash -run ^TestCrashOfWorker$/^file$"

	suitePostgres  test = "./runlog/postgres -run ^TestStore$"
	faultsPostgres test = "./runlog/postgres -short -skip ^TestStore$"
	onPostgres     test = "./internal/crash -run ^TestCrashOf(Worker|Server)$/^postgres$"
	takePostgres   test = "./internal/crash -run ^TestCrashTake$/^postgres$"
	racePostgres   test = "./internal/crash -run ^TestCrashRace$/^postgres$"

	ofRedis test = "./runlog/redis -short"
	onRedis test = "./internal/crash -run ^TestCrashOf(Worker|Server)$/^redis$"
)

func mutants() []mutant {
	return slices.Concat(engineMutants(), keyMutants(), frameMutants(), sqliteMutants(), fileMutants(), postgresMutants(), redisMutants())
}

// keyMutants are without what keeps effects, questions and agents of one task apart. graphtest has to notice it in the graphs of users.
func keyMutants() []mutant {
	twice := func(name, kinds string) mutant {
		return mutant{"keys: " + name, "journal/uses.go", "s.again {\n\t\treturn nil\n", "s.again || " + kinds + " {\n\t\treturn nil\n", []test{ofKeys}}
	}
	return []mutant{
		twice("an effect takes its own", `kind == "effect"`),
		twice("a question takes its own", `kind == "question"`),
		twice("an agent takes its own", `kind == "agent" || kind == "turn"`),
		{"questions: a node that drops one has not passed it", "journal/uses.go", "		} else if err == nil {\n", "		} else if err == nil && text == \"\" {\n", []test{ofKeys}},
		{"questions: an answer is taken for what was asked", "journal/question.go", "		if err := s.unlike(q); err != nil {\n", "		if err := error(nil); err != nil {\n", []test{"./graph"}},
		{"graphtest: a reducer that writes into what it is given is found", "graph/graphtest/graphtest.go", "!bytes.Equal(was, now) {", "!bytes.Equal(was, now) && was == nil {", []test{ofGraphs}},
		{"graphtest: reducers are looked at", "graph/graphtest/graphtest.go", "	Reducers(t, flow, state)\n", "", []test{ofGraphs}},
		{"replay: an attempt whose time was up writes nothing more", "journal/script.go", "turn && late != nil {\n", "turn && late != nil && l.path == \"\" {\n", []test{"./internal/compile -run ^TestLate"}},
		{"containers: what has ended when the time is up is kept", "internal/compile/containers.go", "		if w.late(ctx) {\n\t\t\tg = w.itemsBy", "		if w.late(ctx) && ended == nil {\n\t\t\tg = w.itemsBy", []test{"./internal/compile -run ^TestLate"}},
	}
}

// engineMutants are without what every store relies on above it.
func engineMutants() []mutant {
	tests := []test{inMemory, ofJournal, ofEngine}
	kills := []test{inMemory, onSqlite, ofEngine}
	return []mutant{
		{"journal: records are shown only once they are durable", "journal/append.go",
			"	j.fail(\"journal.before-append\")\n",
			"	for i := range b.Records {\n\t\tb.Records[i].Seq = j.Head() + 1\n\t\tj.hub.publish(b.Records[i])\n\t}\n	j.fail(\"journal.before-append\")\n",
			[]test{onSqlite, ofJournal, ofEngine}},
		{"journal: an append that fails is an error", "journal/append.go",
			"		return fmt.Errorf(\"run %s: %w\", j.id, err)\n	}\n	j.fail(\"journal.after-append\")",
			"		_ = err\n	}\n	j.fail(\"journal.after-append\")", tests},
		{"journal: a lost hold ends what the task does", "journal/journal.go",
			"			case errors.Is(err, runlog.ErrFenced):\n				cancel(err)\n",
			"			case errors.Is(err, runlog.ErrFenced):\n", []test{ofJournal, ofEngine}},
		{"journal: closing it gives the run up", "journal/journal.go",
			"	return errors.Join(err, j.log.Release(ctx))\n}", "	return err\n}", tests},
		{"effects: a recorded outcome is given again", "journal/effect.go",
			"	if settled && done.Error == \"\" {", "	if settled && done.Error == \"\" && e == nil {", kills},
		{"effects: the intent is recorded first", "journal/effect.go",
			"	if e.Repeat != RepeatFreely && !(e.Kind == kindRun", "	if e.Repeat != RepeatFreely && e.Key == \"\" && !(e.Kind == kindRun", kills},
		{"effects: what may happen once is not repeated", "journal/effect.go",
			"	if intents.open && e.Repeat == RepeatNever {", "	if intents.open && e.Repeat == RepeatNever && e.Key == \"\" {", kills},
		{"effects: what has happened is recorded though the run is being stopped", "journal/effect.go",
			"	if werr := j.Write(context.WithoutCancel(ctx), \"\", runlog.KindSettled, s.path, outcome); werr != nil {",
			"	if werr := j.Write(ctx, \"\", runlog.KindSettled, s.path, outcome); werr != nil {", []test{ofStop, ofJournal, ofEngine}},
		{"effects: an outcome is recorded", "journal/effect.go",
			"	if werr := j.Write(context.WithoutCancel(ctx), \"\", runlog.KindSettled, s.path, outcome); werr != nil {",
			"	if werr := error(nil); werr != nil {", kills},
		{"effects: a key is stable", "journal/effect.go",
			"	h := sha256.Sum256([]byte(s.j.id + \"\\x00\" + s.path + \"\\x00\" + effect))",
			"	h := sha256.Sum256([]byte(s.j.id + \"\\x00\" + s.path + \"\\x00\" + effect + rand.Text()))", kills},
		{"effects: the budget is reserved before they begin", "journal/effect.go",
			"	release, err := j.reserve(s.path, e)\n", "	release, err := func() {}, error(nil)\n", tests},
		{"questions: each is answered once", "journal/question.go",
			"	} else if answered {\n		return nil, &AnsweredError{path, a.Key}", "	} else if answered && a == nil {\n		return nil, &AnsweredError{path, a.Key}", tests},
		{"questions: each is asked once", "journal/question.go",
			"	if !asked {\n		recorded := *q", "	if !asked || q != nil {\n		recorded := *q", tests},
		{"questions: an answer has to fit", "journal/question.go",
			"	if !a.Denied {\n		if err := q.Fits(a.Value)", "	if !a.Denied && a.Key == \"\" {\n		if err := q.Fits(a.Value)", tests},
		{"steps: a step that cannot be recorded does not count", "graph/journal.go",
			"		if err := x.journal.Append(ctx, \"\", recs...); err != nil {", "		if err := x.journal.Append(ctx, \"\", recs...); err != nil && ctx == nil {", tests},
		{"steps: they are recorded before the next one begins", "graph/journal.go",
			"		if err := x.journal.Append(ctx, \"\", recs...); err != nil {",
			"		if err := func() error { go x.journal.Append(context.WithoutCancel(ctx), \"\", recs...); return nil }(); err != nil {", kills},
		{"steps: their commit is recorded", "graph/journal.go",
			"		if err := add(runlog.KindStepCommitted, x.opt.space, runlog.StepCommitted{Step: m.Step() - 1}); err != nil {",
			"		if err := error(nil); err != nil {", tests},
		{"tasks: a finished one is recorded before the others have ended", "graph/journal.go",
			"	recs := make([]runlog.Record, 0, len(ended)+2)\n", "	if !commit {\n		return nil\n	}\n	recs := make([]runlog.Record, 0, len(ended)+2)\n", kills},
		{"tasks: attempts that failed are counted across crashes", "graph/journal.go",
			"	return x.journal.Write(ctx, \"\", runlog.KindTaskFailed, path, d)", "	return nil", tests},
		{"snapshots: what is not in them is carried along", "journal/snapshot.go",
			"	if c != nil {\n		r, err := j.New(carry.Kind", "	if c != nil && a == nil {\n		r, err := j.New(carry.Kind", kills},
		{"takeovers: they are counted", "runlog/runlog.go",
			"	return i.Takeovers + 1, nil", "	return i.Takeovers, nil", []test{ofJournal, ofSqlite}},
		{"takeovers: there is an end to them", "runlog/runlog.go",
			"	case i.Takeovers >= MaxTakeovers:", "	case i.Takeovers >= 1000*MaxTakeovers:", []test{ofJournal, ofSqlite}},
		{"engine: a changed graph does not go on with an old run", "graph/fold.go", "s.Digest != d.flow.digest {", "s.Digest != d.flow.digest && d.m != nil {",
			tests},
	}
}

// frameMutants are without the checks of what is read.
func frameMutants() []mutant {
	tests := []test{"./runlog", ofSqlite, ofStop}
	return []mutant{
		{"frames: the checksum", "runlog/encode.go", "want != got {", "want != got && b == nil {", tests},
		{"frames: the hash chain", "runlog/encode.go", "	case c.rooted && prev != c.Hash:", "	case c.rooted && prev != c.Hash && c == nil:", tests},
		{"frames: the sequence", "runlog/encode.go", "	case r.Seq != c.Seq+1:", "	case r.Seq != c.Seq+1 && c == nil:", tests},
		{"frames: epochs do not go back", "runlog/encode.go", "	case r.Epoch < c.epoch:", "	case r.Epoch < c.epoch && c == nil:", tests},
		{"frames: newer versions are refused", "runlog/encode.go", "	case v > frameVersion:", "	case v > frameVersion && b == nil:", tests},
	}
}

func sqliteMutants() []mutant {
	tests := []test{ofSqlite, onSqlite}
	return []mutant{
		{"sqlite: a commit waits for the disk", "runlog/sqlite/conn.go", "PRAGMA synchronous=FULL", "PRAGMA synchronous=OFF", tests},
		{"sqlite: a commit waits for the log on the disk", "runlog/sqlite/conn.go", "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL", tests},
		{"sqlite: a disk that lies is told to flush", "runlog/sqlite/conn.go", "\"PRAGMA fullfsync=ON\"", "\"PRAGMA fullfsync=OFF\"", tests},
		{"sqlite: the epoch is checked", "runlog/sqlite/log.go", "	if uint64(epoch) != l.epoch {\n", "	if uint64(epoch) != l.epoch && w == nil {\n", tests},
		{"sqlite: what is known of epochs is forgotten once others have written", "runlog/sqlite/writer.go",
			"	if err != nil || version == w.version && w.epochs != nil {", "	if err != nil || w.epochs != nil {", tests},
		{"sqlite: the epoch is checked with the status", "runlog/sqlite/log.go",
			"			summary = coalesce(?7, summary)\n		WHERE no = ?1 AND epoch = ?2`",
			"			summary = coalesce(?7, summary)\n		WHERE no = ?1 AND (epoch = ?2 OR 1)`", tests},
		{"sqlite: a record is not written over", "runlog/sqlite/log.go", "INSERT INTO records (pos, frames) VALUES",
			"INSERT OR REPLACE INTO records (pos, frames) VALUES", tests},
		{"sqlite: a run that has ended takes no more", "runlog/storekit/hold.go", "	if t.Status.Ended() {", "	if t.Status.Ended() && b == nil {", tests},
		{"sqlite: renewing checks the epoch", "runlog/sqlite/log.go", "SET lease_until = ?3 WHERE no = ?1 AND epoch = ?2 AND holder",
			"SET lease_until = ?3 WHERE no = ?1 AND (epoch = ?2 OR 1) AND holder", tests},
		{"sqlite: only the holder releases", "runlog/sqlite/log.go", "takeovers = 0 WHERE no = ?1 AND epoch = ?2 AND holder <> ''",
			"takeovers = 0 WHERE no = ?1 AND (epoch = ?2 OR 1) AND holder <> ''", tests},
		{"sqlite: a released hold writes no more", "runlog/storekit/hold.go", "	h.released = true\n", "	h.released = h.ID == \"\"\n", tests},
		{"sqlite: a held run is not taken", "internal/owners/owners.go", "	case live.Held(c):\n		return busy", "	case live.Held(c) && o == nil:\n		return busy",
			tests},
		{"sqlite: a holder that lives keeps its run though the clock jumps", "internal/owners/owners.go", "	case seen == nil:\n		return &Doubt{c}",
			"	case seen == nil:\n		return nil", tests},
		{"sqlite: acquiring raises the epoch", "runlog/sqlite/runs.go", "	a.info.Epoch++\n", "", tests},
		{"sqlite: the count of takeovers is stored", "runlog/sqlite/runs.go", "lease_until = ?6, takeovers = ?7 WHERE",
			"lease_until = ?6, takeovers = 0*?7 WHERE", tests},
		{"sqlite: an append is acknowledged after its commit", "runlog/sqlite/writer.go", "	w.s.fail(\"sqlite.before-commit\")\n",
			"	for _, o := range group {\n		o.done <- nil\n	}\n	w.s.fail(\"sqlite.before-commit\")\n", tests},
		{"sqlite: a commit of unknown outcome is looked for", "runlog/sqlite/writer.go", "		err = w.resolve(group[max(witness, 0)], err)\n",
			"		err, _ = nil, witness\n", tests},
		{"sqlite: a commit that is looked for is settled by writing over it", "runlog/sqlite/writer.go",
			"		err = w.c.exec(\"UPDATE meta SET value = value + 1 WHERE name = 'fences'\", nil)\n", "		err = nil\n", tests},
		{"sqlite: a transaction that failed is rolled back", "runlog/sqlite/writer.go", "		w.undo()\n		switch code(err) {", "		switch code(err) {", tests},
		{"sqlite: the last record is checked before a run goes on", "runlog/sqlite/runs.go", "	return chain.Hash, errors.Join(err, damage)",
			"	return chain.Hash, err", tests},
		{"sqlite: one transaction at a time", "runlog/sqlite/conn.go", "\"BEGIN IMMEDIATE\"", "\"BEGIN\"", []test{ofSqlite, raceOn}},
		{"sqlite: a schema of the future is refused", "runlog/sqlite/open.go", "	case version > int64(known):", "	case version > int64(known) && c == nil:", tests},
		{"sqlite: a name in a directory is made durable", "runlog/sqlite/open.go", "			err = errors.Join(err, localfs.SyncDir(d))", "			_ = d", tests},
	}
}

func fileMutants() []mutant {
	tests := []test{ofFile, onFile}
	return []mutant{
		{"file: an append waits for the disk", "runlog/file/reel.go", "		err, synced = r.f.sync(), true\n", "		err, synced = nil, true\n", tests},
		{"file: an append that could not be synced is taken back", "runlog/file/reel.go", "	if undo := r.cut(synced); undo != nil {",
			"	if undo := error(nil); undo != nil && synced {", tests},
		{"file: a handle that told of an error is not used again", "runlog/file/reel.go", "	if synced {\n		_ = r.close()",
			"	if synced && r.s == nil {\n		_ = r.close()", tests},
		{"file: a former log is durable before the new one takes its place", "runlog/file/disk.go",
			"	if err == nil {\n		err = f.sync()\n	}\n	if err = errors.Join(err, f.Close()); err != nil {", "	if err = errors.Join(err, f.Close()); err != nil {", tests},
		{"file: a new name is made durable", "runlog/file/disk.go", "	return s.disk.syncDir(filepath.Dir(path))", "	_ = filepath.Dir(path)\n	return nil", tests},
		{"file: the name of a new log is made durable", "runlog/file/reel.go", "	if err := r.s.disk.syncDir(r.dir); err != nil {",
			"	if err := error(nil); err != nil {", tests},
		{"file: a compressed copy is durable before the log it is of goes", "runlog/file/pack.go", "		err = s.disk.syncDir(dir)\n	}\n	if err != nil {\n		os.Remove(tmp)",
			"	}\n	if err != nil {\n		os.Remove(tmp)", tests},
		{"file: a log without records is not put away", "runlog/file/reel.go", "	if st.Seq >= r.h.base {", "	if st.Seq >= 0 {", tests},
		{"file: a deleted run is not touched", "runlog/file/log.go", "	if err != nil { // the run was deleted, for one;", "	if err != nil && e != nil { // the run was deleted, for one;", tests},
		{"file: what a crash left is made durable before it counts", "runlog/file/edit.go", "	if err := e.f.sync(); err != nil {",
			"	if err := error(nil); err != nil {", tests},
		{"file: what a crash left is written again, not only synced", "runlog/file/edit.go", "	if e.size > durable {", "	if e.size > durable && e.s == nil {", tests},
		{"file: a torn end is cut off", "runlog/file/edit.go", "	if e.size < int64(len(data)) {", "	if e.size < int64(len(data)) && e.s == nil {", tests},
		{"file: damage is told from a torn end", "runlog/file/scan.go", "	case sc.end == 0, sc.end < durable, h.later(data, sc.pos):", "	case sc.end == 0:", tests},
		{"file: a log that became shorter is noticed", "runlog/file/scan.go", "	case sc.end == size && durable <= size:", "	case sc.end == size:", tests},
		{"file: checksums", "runlog/file/scan.go", "	if err == nil && checksum(b[8:e.size]) != binary.LittleEndian.Uint32(b[4:]) {",
			"	if err == nil && checksum(b[8:e.size]) != binary.LittleEndian.Uint32(b[4:]) && h == nil {", tests},
		{"file: a mark agrees with the records before it", "runlog/file/scan.go", "		if err == nil && e.mark && e.st.Seq != sc.seq {",
			"		if err == nil && e.mark && e.st.Seq != sc.seq && h == nil {", tests},
		{"file: what others wrote is read before anything is written", "runlog/file/log.go", "	case own.Size() != l.size:\n		return l.catchUp(own.Size())\n",
			"	case own.Size() < 0:\n		return l.catchUp(own.Size())\n", tests},
		{"file: the epoch is checked", "runlog/file/log.go", "		if st.epoch != l.epoch || st.deleted || st.holder == \"\" {",
			"		if st.deleted || st.holder == \"\" {", tests},
		{"file: a log that was replaced is not written to", "runlog/file/log.go", "	case !os.SameFile(own, there):",
			"	case !os.SameFile(own, there) && l.s == nil:", tests},
		{"file: a run that has ended takes no more", "runlog/storekit/hold.go", "	if t.Status.Ended() {", "	if t.Status.Ended() && b == nil {", tests},
		{"file: only the holder releases", "runlog/file/log.go", "	case e.st.epoch != l.epoch || e.st.holder == \"\" || e.h.no != l.h.no:",
			"	case e.st.holder == \"\":", tests},
		{"file: acquiring raises the epoch", "runlog/file/runs.go", "	st.epoch++\n", "", tests},
		{"file: a held run is not taken", "internal/owners/owners.go", "	case live.Held(c):\n		return busy", "	case live.Held(c) && o == nil:\n		return busy", tests},
		{"file: room is kept for a run to say that it is parked", "runlog/file/log.go",
			"	if last && errors.As(err, new(*runlog.StorageError)) && l.s.reserve.spend() {",
			"	if last && errors.As(err, new(*runlog.StorageError)) && l.s == nil {", tests},
	}
}

func postgresMutants() []mutant {
	tests := []test{suitePostgres, faultsPostgres, onPostgres}
	return []mutant{
		{"postgres: the hold is checked", "runlog/postgres/writer.go", "	WHERE no = $1 AND hold = $2 AND rev = $3\n",
			"	WHERE no = $1 AND (hold = $2 OR true) AND rev = $3\n", tests},
		{"postgres: the hold is checked for several records", "runlog/postgres/writer.go", "	WHERE r.no = b.no AND r.hold = b.hold AND r.rev = b.rev\n",
			"	WHERE r.no = b.no AND r.rev = b.rev\n", tests},
		{"postgres: the position is checked", "runlog/postgres/writer.go", "	WHERE no = $1 AND hold = $2 AND rev = $3\n",
			"	WHERE no = $1 AND hold = $2 AND (rev = $3 OR true)\n", tests},
		{"postgres: a commit waits for the disk", "runlog/postgres/conn.go", "THEN 'remote_apply' ELSE 'on' END", "THEN 'remote_apply' ELSE 'off' END", tests},
		{"postgres: a commit that is not on its standby is not acknowledged", "runlog/postgres/writer.go", "err == nil && warning != \"\" {",
			"err == nil && warning != \"\" && w == nil {", tests},
		{"postgres: a commit of unknown outcome is looked for", "runlog/postgres/log.go", "	case rev == o.then.rev:\n		return errLanded\n", "", tests},
		{"postgres: a commit whose connection was lost counts as sent", "runlog/postgres/writer.go",
			"	if err = w.lost(err); judge(err) == away {\n		return err\n	}\n",
			"	if err = w.lost(err); judge(err) == away {\n		for _, o := range g.ops {\n			o.sent = false\n		}\n		return err\n	}\n", tests},
		{"postgres: an append is acknowledged after its commit", "runlog/postgres/writer.go", "	w.s.fail(\"postgres.before-commit\")\n",
			"	for _, o := range g.ops {\n		o.done <- nil\n	}\n	w.s.fail(\"postgres.before-commit\")\n", tests},
		{"postgres: what a failover lost is noticed", "runlog/postgres/log.go", "	case rev < o.was.rev:\n		return o.reset(\"the last of them are missing\")\n",
			"", tests},
		{"postgres: another store in the place of this one is noticed", "runlog/postgres/conn.go", "		if d.instance != instance {",
			"		if d.instance != instance && d.schema == \"\" {", tests},
		{"postgres: a standby is refused", "runlog/postgres/conn.go", "	case f.standby:", "	case f.standby && d == nil:", tests},
		{"postgres: a held run is not taken", "runlog/postgres/runs.go", "	if r.held() {\n		return r.busy()\n	}\n	takeovers", "	takeovers", tests},
		{"postgres: of two who take a run one gets it", "runlog/postgres/runs.go",
			"		WHERE no = $1 AND hold = $2 AND rev = $3 AND epoch = $8 AND (hold = 0 OR lease_until <= clock_timestamp())`",
			"		WHERE no = $1 AND ($2::bigint, $3::bigint, $8::bigint) IS NOT NULL`", []test{takePostgres, suitePostgres, racePostgres}},
		{"postgres: acquiring raises the epoch", "runlog/postgres/runs.go", "SET epoch = epoch + 1, hold", "SET epoch = epoch, hold", tests},
		{"postgres: the count of takeovers is stored", "runlog/postgres/runs.go", "takeovers = $6::bigint,", "takeovers = 0 * $6::bigint,", tests},
		{"postgres: only the holder releases", "runlog/postgres/log.go", "lease_until = clock_timestamp() WHERE no = $1 AND hold = $2\"",
			"lease_until = clock_timestamp() WHERE no = $1 AND (hold = $2 OR true)\"", tests},
		{"postgres: renewing checks the hold", "runlog/postgres/log.go", "			WHERE no = $1 AND hold = $2 RETURNING cancel, rev`",
			"			WHERE no = $1 AND (hold = $2 OR true) RETURNING cancel, rev`", tests},
		{"postgres: a run that has ended takes no more", "runlog/storekit/hold.go", "	if t.Status.Ended() {", "	if t.Status.Ended() && b == nil {", tests},
	}
}

func redisMutants() []mutant {
	tests := []test{ofRedis, onRedis}
	const write = "runlog/redis/scripts/write.lua"
	return []mutant{
		{"redis: the hold is checked", write, "  if m.token == token then return nil end\n  if m.epoch", "  if true then return nil end\n  if m.epoch", tests},
		{"redis: the position is checked", write, "  if m.ver < ver or m.head ~= head then return", "  if false then return", tests},
		{"redis: a write that was done is not done again", write, "  if m.ver > ver then\n", "  if false then\n", tests},
		{"redis: a write that was done before is known again", write,
			"    if unsure and (n == 0 or landed(log, head + n, ARGV[first + n - 1])) then return {'ok'} end\n    return {'odd'}", "    return {'odd'}", tests},
		{"redis: a write whose answer was lost is unsure", "runlog/redis/writer.go", "				o.unsure = true\n", "				o.unsure = false\n", tests},
		{"redis: an append is acknowledged after it was done", "runlog/redis/writer.go", "		s.fail(\"redis.before-send\")\n",
			"		for _, o := range in {\n			o.done <- nil\n		}\n		s.fail(\"redis.before-send\")\n", tests},
		{"redis: a held run is not taken", write, "  elseif held(m) then\n    return {'busy', m.owner, m.till}\n  elseif anyway then", "  elseif anyway then", tests},
		{"redis: acquiring raises the epoch", write, "m.till = m.epoch + 1, token", "m.till = m.epoch, token", tests},
		{"redis: takeovers are counted", write, "    m.takeovers = m.takeovers + 1\n", "", tests},
		{"redis: there is an end to takeovers", write, "    if m.takeovers >= tonumber(ARGV[3]) then return", "    if false then return", tests},
		{"redis: only the holder releases", write, "  if not m or m.born ~= born or m.token ~= token then return {'ok'} end",
			"  if not m or m.born ~= born then return {'ok'} end", tests},
		{"redis: an emptied store is noticed", "runlog/redis/scripts/common.lua", "  if not st[1] then return {'gone'} end\n  if st[1] ~= id then",
			"  if not st[1] then return nil, '0' end\n  if st[1] ~= id then", tests},
		{"redis: another store in the place of this one is noticed", "runlog/redis/scripts/common.lua", "  if st[1] ~= id then return {'other', st[1]} end\n",
			"", tests},
		{"redis: an earlier state of the store is noticed", "runlog/redis/scripts/common.lua",
			"  if tonumber(st[2]) < tonumber(lsn) then return {'back', st[2]} end\n", "", tests},
		{"redis: a server that keeps nothing is refused", "runlog/redis/examine.go", "		if !opt.AllowVolatile {\n			return nil, fmt.Errorf(\"%s, so a restart",
			"		if !opt.AllowVolatile && v == nil {\n			return nil, fmt.Errorf(\"%s, so a restart", tests},
		{"redis: a server that evicts runs is refused", "runlog/redis/examine.go",
			"	case bounded && strings.HasPrefix(policy, \"allkeys-\") && !opt.AllowVolatile:",
			"	case bounded && strings.HasPrefix(policy, \"allkeys-\") && !opt.AllowVolatile && v == nil:", tests},
		{"redis: a replica is refused", "runlog/redis/examine.go", "role == \"slave\" || role == \"replica\" {", "role == \"master of none\" {", tests},
		{"redis: a run that has ended takes no more", "runlog/storekit/hold.go", "	if t.Status.Ended() {", "	if t.Status.Ended() && b == nil {", tests},
	}
}
