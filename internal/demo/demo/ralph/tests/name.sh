got=$(sh greet.sh Ada)
[ "$got" = "Hello, Ada." ] || { echo "want: Hello, Ada. got: $got"; exit 1; }
