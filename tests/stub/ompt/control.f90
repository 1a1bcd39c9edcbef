! Fortran's side of the two routines with which a program controls a tool.
program control
  implicit none
  external :: ompt_control
  integer, external :: omp_control_tool
  integer(8) :: command
  do command = 1, 4
    call ompt_control(command, command * 10_8)
  end do
  call ompt_control(64_8, -1_8)
  print '(i0)', omp_control_tool(65, 7)
end program
