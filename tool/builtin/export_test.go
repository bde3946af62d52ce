package builtin

var (
	EditFile   = editFile
	TodoList   = todoList
	ParseTodos = parseTodos
	WebFetch   = webFetch
)
