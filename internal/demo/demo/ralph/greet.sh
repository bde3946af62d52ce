# greet NAME says hello.
name=$1
echo "Hello, $name."
