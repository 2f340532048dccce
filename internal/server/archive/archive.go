package archive

// Archive sends the logs of one server to a place.
type Archive = Shard
