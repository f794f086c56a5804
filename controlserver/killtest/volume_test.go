package killtest

func volumeMain() int { return 0 }
