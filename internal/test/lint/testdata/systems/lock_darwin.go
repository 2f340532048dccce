package systems

import "os"

func lock(*os.File, bool) error { return nil }
