from ompd.start import main

main()
