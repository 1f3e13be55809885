"""The course as its authors edit it: lesson sources, the teaching kit, exercises and the build."""
