#!/bin/sh
for t in tests/*.sh; do
  sh "$t" || { echo "FAIL $t"; exit 1; }
done
echo "ok"
