package target

import (
	"context"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/workers"
)

const (
	// completionTime bounds the wait for the names of an account when a shell completes an argument.
	completionTime = 2 * time.Second
	// maxCompletions is the number of names that are offered.
	maxCompletions = 200
)

// CompleteNames makes shells offer the names of queues, tables and containers, for the arguments that the usage line
// calls so.
func CompleteNames(cmd *cobra.Command) {
	words := strings.Fields(cmd.Use)[1:]
	if cmd.ValidArgsFunction != nil || cmd.Flag("connection-string") == nil || len(words) == 0 {
		return
	}
	kinds := make([]string, len(words))
	any := false
	for i, word := range words {
		word = strings.ToLower(strings.Trim(word, "[]"))
		switch kind, _, _ := strings.Cut(strings.ReplaceAll(word, "[", "/"), "/"); {
		case word == "..." && i > 0:
			kinds[i] = kinds[i-1]
		case kind == "queue" || kind == "table" || kind == "container":
			kinds[i], any = kind, true
		}
	}
	if !any {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		kind := ""
		if len(args) < len(kinds) {
			kind = kinds[len(args)]
		} else if words[len(words)-1] == "..." {
			kind = kinds[len(kinds)-1]
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		names, err := namesOf(ctx, cmd.Flag("connection-string").Value.String(), kind, begun)
		switch {
		case kind == "":
			return nil, cobra.ShellCompDirectiveDefault // a file
		case err != nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case kind == "container" && strings.Contains(cmd.Use, "CONTAINER/"):
			for i := range names {
				names[i] += "/"
			}
			return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// namesOf returns the names of a kind that begin with prefix, in the account that the other verbs use.
func namesOf(ctx context.Context, connection, kind, prefix string) (names []string, err error) {
	if kind == "" {
		return nil, nil
	}
	text, err := ChooseConnection(connection)
	if err != nil {
		return nil, err
	}
	s, err := OpenStorage(text)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == "queue" && s.Queues != nil:
		names, err = queueNames(ctx, s, prefix)
	case kind == "table" && s.Tables != nil:
		names, err = tableNames(ctx, s, prefix)
	case kind == "container" && s.Blobs != nil:
		names, err = containerNames(ctx, s, prefix)
	}
	return names[:min(len(names), maxCompletions)], err
}

func queueNames(ctx context.Context, s *workers.Storage, prefix string) (names []string, err error) {
	page, err := s.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &prefix}).NextPage(ctx)
	for _, q := range page.Queues {
		names = append(names, *q.Name)
	}
	return names, err
}

func tableNames(ctx context.Context, s *workers.Storage, prefix string) (names []string, err error) {
	for pages := s.Tables.NewListTablesPager(&aztables.ListTablesOptions{}); pages.More() && len(names) < maxCompletions; {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tables {
			if strings.HasPrefix(*t.Name, prefix) {
				names = append(names, *t.Name)
			}
		}
	}
	return names, nil
}

func containerNames(ctx context.Context, s *workers.Storage, prefix string) (names []string, err error) {
	page, err := s.Blobs.NewListContainersPager(&azblob.ListContainersOptions{Prefix: &prefix}).NextPage(ctx)
	for _, c := range page.ContainerItems {
		names = append(names, *c.Name)
	}
	return names, err
}
