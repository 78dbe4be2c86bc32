package render

// FunctionNames are the functions that templates may call.
var FunctionNames = functionNames
