package results

// Point is a value at a size.
type Point struct{ X, Y float64 }

// Line is what values follow as a size grows.
type Line struct {
	Intercept, Slope float64
	// R2 is how well it fits: 1 is exactly.
	R2 float64
}

// Fit lays a line through points by least squares. Through fewer than two sizes there is none.
func Fit(points []Point) Line {
	n, sx, sy, sxx, sxy, syy := float64(len(points)), 0.0, 0.0, 0.0, 0.0, 0.0
	for _, p := range points {
		sx, sy, sxx, sxy, syy = sx+p.X, sy+p.Y, sxx+p.X*p.X, sxy+p.X*p.Y, syy+p.Y*p.Y
	}
	covariance, varianceX, varianceY := n*sxy-sx*sy, n*sxx-sx*sx, n*syy-sy*sy
	if varianceX == 0 || varianceY == 0 {
		return Line{}
	}
	slope := covariance / varianceX
	return Line{Intercept: (sy - slope*sx) / n, Slope: slope, R2: covariance * covariance / (varianceX * varianceY)}
}

// At is the value at a size.
func (l Line) At(x float64) float64 { return l.Intercept + l.Slope*x }
