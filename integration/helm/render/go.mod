module github.com/railyard/railyard/integration/helm/render

go 1.21
