package systems

import "os"

func lock(*os.File) error { return nil }
