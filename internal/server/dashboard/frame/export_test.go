package frame

// Files and Models are the templates and models of the pages that all sites have.
var (
	Files  = files
	Models = []Model{confirmPage{}, errorPage{}}
)
