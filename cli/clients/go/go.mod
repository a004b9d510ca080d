module github.com/railyard/railyard-go

go 1.21
