package report

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrWeek means that a text names no ISO 8601 week.
var ErrWeek = errors.New("no ISO week, such as 2026-W48")

// monday is the date of a week's first day.
func monday(week string) (time.Time, error) {
	wrong := fmt.Errorf("%w: %q", ErrWeek, week)
	if year, number, ok := strings.Cut(week, "-W"); ok && len(year) == 4 && len(number) == 2 {
		y, errYear := strconv.Atoi(year)
		n, errWeek := strconv.Atoi(number)
		// 4 January is always of the first week.
		day := time.Date(y, time.January, 4, 0, 0, 0, 0, time.UTC)
		day = day.AddDate(0, 0, -(int(day.Weekday())+6)%7+7*(n-1))
		if errYear == nil && errWeek == nil && y > 0 && weekID(day) == week {
			return day, nil
		}
	}
	return time.Time{}, wrong
}

func weekID(day time.Time) string {
	year, week := day.ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}

// CheckWeek says whether there is such a week in the calendar: ErrWeek if not.
func CheckWeek(week string) error {
	_, err := monday(week)
	return err
}

// WeekBefore is the week before one, by the calendar.
func WeekBefore(week string) (string, error) {
	day, err := monday(week)
	return weekID(day.AddDate(0, 0, -7)), err
}
