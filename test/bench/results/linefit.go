package results

// Point is a value at a size.
type Point struct{ X, Y float64 }

// Line is a linear fit.
type Line struct {
	Intercept, Slope float64
	// R2 is the coefficient of determination: 1 is a perfect fit.
	R2 float64
}

// Fit fits a line with least squares. It needs at least two sizes.
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

// At returns the value of the line at x.
func (l Line) At(x float64) float64 { return l.Intercept + l.Slope*x }
