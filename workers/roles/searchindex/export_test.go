package searchindex

import "github.com/lazuli-storage/lazuli/workers"

// Follower returns the index as App.FollowTable sees it.
func Follower(x *Index) workers.TableFollower { return follower{x} }
