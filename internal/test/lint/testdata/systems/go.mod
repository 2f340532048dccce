module example.com/systems

go 1.26
