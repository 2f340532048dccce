package connstr

// Variable is the environment variable that names an account for Lazuli's own programs alone.
const Variable = "LAZULI_CONNECTION_STRING"

// DefaultConnection is the name of the connection that functions use by default, as in Azure Functions, and of its
// environment variable.
const DefaultConnection = "AzureWebJobsStorage"

// Variables are the environment variables that can hold a connection string, in the order in which every client of this
// module reads them: the verbs of the command, package workers and the examples. The second is that of Azure Functions,
// the third that of the Azure CLI.
var Variables = []string{Variable, DefaultConnection, "AZURE_STORAGE_CONNECTION_STRING"}

// FromEnvironment returns the value and the name of the first of Variables that is set and not empty. Without one it
// returns Development and no name.
func FromEnvironment(getenv func(string) string) (text, variable string) {
	for _, name := range Variables {
		if text := getenv(name); text != "" {
			return text, name
		}
	}
	return Development, ""
}
